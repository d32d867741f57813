"""When an event matches a filter."""

import pytest
from hypothesis import example, given

from smartpubsub.predicates import Predicate, PredicateError
from tests.predicates import oracle
from tests.predicates.said import Said, predicate, written
from tests.predicates.strategies import kindred


@pytest.mark.parametrize(
    ("filter_text", "event"),
    [
        ("surf", "surf"),
        ("surf", "portugal/surf"),
        ("surf", "surf=5"),
        ("surf", "surf[1,2]"),
        ("price[10,20]", "price=10"),
        ("price[10,20]", "price=20"),
        ("price[10,20]", "price=15/surf"),
        ("price[10,20]", "price[10,20]"),
        ("price[10,20]", "price[12,13]"),
        ("price[10,]", "price[10,]"),
        ("price[10,]", "price=1e400"),
        ("price[,20]", "price=-1e400"),
        ("price[,]", "price[,]"),
        ("price[,]", "price=0"),
        ("price=0.1", "price=0.10"),
        ("price=0", "price=-0"),
        ("at[2007-01-31,]", "at=2007-01-31T00:00:00Z"),
        ("id[9007199254740993,]", "id=9007199254740993"),
        ("surf T/price R 10 20", "price[15]/surf"),
    ],
)
def test_events_that_match(filter_text: str, event: str) -> None:
    assert Predicate.parse(filter_text).matches(event)
    assert Predicate.parse(filter_text).matches(Predicate.parse(event))


@pytest.mark.parametrize(
    ("filter_text", "event"),
    [
        ("surf", "portugal"),
        ("surf", "Surf"),
        ("surf/portugal", "surf"),
        ("price[10,20]", "price"),
        ("price[,]", "price"),
        ("price[10,20]", "cost=15"),
        ("price[10,20]", "price=9.99"),
        ("price[10,20]", "price=20.000000000000000000000000000001"),
        ("price[10,20]", "price[15,25]"),
        ("price[10,20]", "price[5,15]"),
        ("price[10,20]", "price[10,]"),
        ("price[10,20]", "price[,20]"),
        ("price[10,]", "price[,]"),
        ("id[9007199254740993,]", "id=9007199254740992"),
        ("id[,9007199254740992]", "id=9007199254740993"),
        ("x[,0]", "x=1e-400"),
        ("x[,1.7976931348623157e308]", "x=1.7976931348623158e308"),
        ("at[,2007-01-31]", "at=2007-01-31T00:00:00.000001Z"),
    ],
)
def test_events_that_do_not_match(filter_text: str, event: str) -> None:
    assert not Predicate.parse(filter_text).matches(event)


@given(kindred(2))
@example([{"x": ("0", "9007199254740993")}, {"x": ("9007199254740993", "9007199254740993")}])
def test_matching_is_what_the_rule_says(pair: list[Said]) -> None:
    wanted, carried = pair

    assert predicate(wanted).matches(predicate(carried)) == oracle.matches(wanted, carried)
    assert predicate(wanted).covers(predicate(carried)) == oracle.matches(wanted, carried)


@given(kindred(2))
def test_written_events_are_read_first(pair: list[Said]) -> None:
    wanted, carried = pair

    assert predicate(wanted).matches(written(carried)) == oracle.matches(wanted, carried)


def test_unreadable_events_are_refused() -> None:
    with pytest.raises(PredicateError):
        Predicate.parse("surf").matches("surf/")
