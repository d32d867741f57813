"""When a filter covers another: it wants every event that the other wants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.predicates import Predicate
from tests.predicates.said import Said, predicate
from tests.predicates.strategies import kindred, narrower, said


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("surf", "surf/portugal"),
        ("price", "price[10,20]"),
        ("price", "price[,]"),
        ("price[,]", "price[10,]"),
        ("price[10,20]", "surf/price[12,20]"),
    ],
)
def test_the_wider_filter_covers_and_not_the_other_way(wide: str, narrow: str) -> None:
    assert Predicate.parse(wide).covers(narrow)
    assert not Predicate.parse(narrow).covers(wide)


@pytest.mark.parametrize(
    ("one", "other"),
    [("surf", "portugal"), ("price[10,20]", "price[15,25]"), ("surf/a", "surf/b")],
)
def test_filters_apart_do_not_cover_each_other(one: str, other: str) -> None:
    assert not Predicate.parse(one).covers(other)
    assert not Predicate.parse(other).covers(one)


@given(said())
def test_every_filter_covers_itself(said: Said) -> None:
    assert predicate(said).covers(predicate(said))


@given(st.data())
def test_whatever_is_narrower_is_covered(data: st.DataObject) -> None:
    wide = data.draw(said(max_size=3))
    narrow = data.draw(narrower(wide))

    assert predicate(wide).covers(predicate(narrow))


@given(st.data())
def test_a_covering_filter_wants_the_events_made_for_the_covered_one(data: st.DataObject) -> None:
    wide = data.draw(said(max_size=1))
    narrow = data.draw(narrower(wide))
    event = data.draw(narrower(narrow))

    assert predicate(narrow).matches(predicate(event))
    assert predicate(wide).matches(predicate(event))


@given(kindred(3))
def test_a_covering_filter_wants_every_event_of_the_covered_one(three: list[Said]) -> None:
    wide, narrow, event = map(predicate, three)

    if wide.covers(narrow) and narrow.matches(event):
        assert wide.matches(event)


@given(kindred(3))
def test_covering_is_transitive(three: list[Said]) -> None:
    one, other, last = map(predicate, three)

    if one.covers(other) and other.covers(last):
        assert one.covers(last)


@given(kindred(2))
def test_filters_that_cover_each_other_are_equal(pair: list[Said]) -> None:
    one, other = map(predicate, pair)

    assert (one.covers(other) and other.covers(one)) == (one == other)
