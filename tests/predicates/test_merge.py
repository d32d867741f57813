"""Two filters become one only where that lets through nothing that neither wanted."""

from collections import ChainMap
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.predicates import Interval, Predicate
from tests.predicates import oracle
from tests.predicates.said import Bounds, Said, predicate
from tests.predicates.strategies import around, bounds, kindred, names, narrower, numerals, said


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        ("price[10,20]", "price[15,30]", "price[10,30]"),
        ("price[10,20]", "price[20,30]", "price[10,30]"),
        ("price[,20]", "price[20,]", "price[,]"),
        ("price[,20]", "price[15,30]", "price[,30]"),
        ("surf/price[10,20]", "price[20,30]/surf", "surf/price[10,30]"),
        ("a=1/price[10,20]", "a=1/price[20,30]", "a=1/price[10,30]"),
        ("surf", "surf", "surf"),
        ("surf", "surf/portugal", "surf"),
        ("surf/portugal", "surf", "surf"),
        ("price", "price[10,20]", "price"),
        ("price[10,20]", "surf/price[12,13]", "price[10,20]"),
        ("a[1,9]/b[1,9]", "a[2,3]/b[4,5]", "a[1,9]/b[1,9]"),
    ],
)
def test_filters_that_are_one(one: str, other: str, merged: str) -> None:
    assert str(Predicate.parse(one).merge(other)) == merged


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("surf", "portugal"),
        ("surf/a", "surf/b"),
        ("price[10,20]", "price[21,30]"),
        ("price[10,20]", "price[20.000000000000000000000001,30]"),
        ("id[,9007199254740992]", "id[9007199254740993,]"),
        ("x[,0]", "x[1e-400,]"),
        ("price=10", "price=11"),
        ("price[10,20]", "cost[10,20]"),
        ("price[10,20]", "price[15,30]/surf"),
        ("a[1,2]/b[1,2]", "a[2,3]/b[2,3]"),
        ("a/b[1,2]", "a=5/b[2,3]"),
    ],
)
def test_filters_that_stay_two(one: str, other: str) -> None:
    assert Predicate.parse(one).merge(other) is None
    assert Predicate.parse(other).merge(one) is None


@given(st.data())
def test_a_covering_filter_is_the_merged_one(data: st.DataObject) -> None:
    wide = data.draw(said(max_size=3))
    narrow = data.draw(narrower(wide))

    assert predicate(wide).merge(predicate(narrow)) == predicate(wide)
    assert predicate(narrow).merge(predicate(wide)) == predicate(wide)


@st.composite
def differing_in_one_range(draw: st.DrawFn) -> tuple[Said, Said]:
    common = draw(st.dictionaries(names(), st.none() | bounds(numerals()), max_size=2))
    name = draw(names())
    near = st.sampled_from(around(draw(numerals())) + around(draw(numerals())))
    one, other = draw(bounds(near)), draw(bounds(near))
    return {**common, name: one}, {**common, name: other}


@given(differing_in_one_range())
def test_filters_that_differ_in_one_range_merge_exactly_if_it_touches(
    pair: tuple[Said, Said],
) -> None:
    one, other = pair
    touch = all(
        one[name] == other[name] or have_common_point(one[name], other[name]) for name in one
    )

    assert (predicate(one).merge(predicate(other)) is not None) == touch


def have_common_point(one: Bounds | None, other: Bounds | None) -> bool:
    ends = [end for pair in (one, other) for end in pair or () if end is not None]
    return any(
        oracle.is_met(one, (point, point)) and oracle.is_met(other, (point, point))
        for point in ends or ["0"]
    )


@given(differing_in_one_range() | kindred(2).map(lambda two: (two[0], two[1])))
def test_a_merged_filter_wants_the_points_that_either_wanted(pair: tuple[Said, Said]) -> None:
    one, other = pair
    merged = predicate(one).merge(predicate(other))

    if merged is not None:
        for event in points_at_all_bounds(one, other):
            wanted = oracle.matches(one, event) or oracle.matches(other, event)
            assert merged.matches(predicate(event)) == wanted


def points_at_all_bounds(one: Said, other: Said) -> list[Said]:
    """Events with points at and next to the bounds of two filters, and without each topic."""
    all_names = list({**one, **other})
    ends = {
        name: [end for said in (one, other) for end in said.get(name) or () if end is not None]
        for name in all_names
    }
    parts: list[list[Said]] = [
        [{}, {name: None}, *(point(name, at) for end in ends[name] for at in around(end))]
        for name in all_names
    ]
    events = [dict(ChainMap(*combined)) for combined in product(*parts)]
    return [event for event in events if event]


def point(name: str, at: str) -> Said:
    return {name: (at, at)}


@given(kindred(2))
def test_merging_does_not_depend_on_the_order(pair: list[Said]) -> None:
    one, other = map(predicate, pair)

    assert one.merge(other) == other.merge(one)


@given(kindred(2))
def test_a_merged_filter_covers_both(pair: list[Said]) -> None:
    one, other = map(predicate, pair)
    merged = one.merge(other)

    if merged is not None:
        assert merged.covers(one)
        assert merged.covers(other)


def test_intervals_touch_and_have_a_hull() -> None:
    low, high = Interval(1.0, 2.0), Interval(2.0, 4.0)

    assert low.touches(high)
    assert high.touches(low)
    assert not low.touches(Interval(3.0, 4.0))
    assert low.hull(high) == high.hull(low) == Interval(1.0, 4.0)
