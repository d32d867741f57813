"""Summaries that let through too much or too little are found."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartpubsub.predicates import Interval, Predicate
from smartpubsub.protocols.baselines.floodsub import Floodsub
from smartpubsub.protocols.pubsub import Inspection, Summary
from smartpubsub.sim.judging.checkers import Facts
from smartpubsub.sim.judging.checkers.summaries import check_summaries, free_place
from smartpubsub.sim.judging.journal import Journal
from smartpubsub.sim.judging.oracle import Oracle
from tests.matching.strategies import REPEATABLE, intervals, predicates
from tests.sim.checkers.broken import MergingTooLittle, MergingTooWidely, Summarising
from tests.sim.checkers.world import Protocol, SmallWorld, broken_in


def several_filters(protocol: Protocol) -> Facts:
    world = SmallWorld(protocol)
    world.subscribe(1, "surf/price[10,20]")
    world.subscribe(1, "surf/price[20,30]")
    world.inspect()
    world.inspect()
    world.subscribe(1, "surf/price[31,40]")
    world.inspect()
    return world.facts()


def test_summaries() -> None:
    assert broken_in(several_filters, Floodsub) == []
    assert broken_in(several_filters, Summarising) == []
    assert broken_in(several_filters, MergingTooWidely) == [6]
    assert broken_in(several_filters, MergingTooLittle) == [6]


def test_violations_say_what_is_wrong_once_and_with_an_event_that_shows_it() -> None:
    (violation,) = check_summaries(several_filters(MergingTooWidely)).violations

    assert violation.what == (
        "node 1 shows the filter surf/price[10,40],"
        " and keeps none that wants surf and price between 30 and 31"
    )


def is_right(members: list[str], shown: list[str]) -> bool:
    summary = Summary(tuple(map(Predicate.parse, members)), tuple(map(Predicate.parse, shown)))
    sample = (0, 0, Inspection(summaries=(summary,)))
    facts = Facts(
        journal=Journal(),
        oracle=Oracle(),
        is_reliable=True,
        promises_order=True,
        inspections=[sample],
    )
    return check_summaries(facts).violations == []


@pytest.mark.parametrize(
    ("members", "shown"),
    [
        ([], []),
        (["a", "a/b[1,2]"], ["a"]),
        (["a[1,2]/b", "a[2,3]/b"], ["a[1,3]/b"]),
        (["a[,2]", "a[2,]"], ["a[,]"]),
        (["a[1,2]/b[1,2]", "a[2,3]/b[1,2]", "a[1,3]/b[2,3]"], ["a[1,3]/b[1,3]"]),
        (["a[1,2]/b[1,2]", "a[2,3]/b[1,2]", "a[1,2]/b[2,3]", "a[2,3]/b[2,3]"], ["a[1,3]/b[1,3]"]),
        (["a[1,2]/b", "a[2,3]/b[1,5]"], ["a[1,2]/b", "a[2,3]/b[1,5]"]),
    ],
)
def test_right_summaries(members: list[str], shown: list[str]) -> None:
    assert is_right(members, shown)


@pytest.mark.parametrize(
    ("members", "shown"),
    [
        ([], ["a"]),
        (["a"], []),
        (["a/b"], ["a"]),
        (["a"], ["a/b"]),
        (["a", "b"], ["a"]),
        (["a[,]"], ["a"]),
        (["a"], ["a[,]"]),
        (["a[1,2]", "a[2.1,3]"], ["a[1,3]"]),
        (["a[1,2]", "a[2.00000000000000000001,3]"], ["a[1,3]"]),
        (["a[,2]", "a[3,]"], ["a[,]"]),
        (["a[1,2]"], ["a[1,2.00000000000000000001]"]),
        (["a[1,2]"], ["a[,2]"]),
        (["a[1,2]", "a[2,3]"], ["a[1,2]", "a[2,2.5]"]),
        (["a[1,2]/b[1,2]", "a[2,3]/b[1,3]"], ["a[1,3]/b[1,3]"]),
        (["a[1,2]/b[1,2]", "a[2,3]/b[1,2]", "a[1,2]/b[2,3]"], ["a[1,3]/b[1,3]"]),
        (["a[1,2]/b", "a[2,3]/b[1,5]"], ["a[1,3]/b"]),
    ],
)
def test_wrong_summaries(members: list[str], shown: list[str]) -> None:
    assert not is_right(members, shown)


small = st.integers(0, 4).map(float)
filters = predicates(["a", "b", "c"], intervals(small), size_max=3)
# Bounds are integers, so these are all the numbers that filters can tell apart.
VALUES = [Interval(half / 2, half / 2) for half in range(-1, 10)]
EVENTS = [
    Predicate.unchecked({name: value for name, value in zip("abc", values, strict=True) if value})
    for values in product([None, *VALUES], repeat=3)
]
"""All events that have some of three names, each with a point."""


@settings(REPEATABLE, max_examples=60)
@given(shown=filters, members=st.lists(filters, max_size=5))
def test_a_free_place_is_found_exactly_when_there_is_one(
    shown: Predicate, members: list[Predicate]
) -> None:
    ranges = {name: wanted for name, wanted in shown.attributes.items() if wanted is not None}
    topics = {name: None for name in shown.attributes if name not in ranges}
    events = (
        Predicate.unchecked({**topics, **dict(zip(ranges, values, strict=True))})
        for values in product(VALUES, repeat=len(ranges))
    )
    is_one_free = any(
        shown.matches(event) and not any(member.matches(event) for member in members)
        for event in events
    )

    assert (free_place(shown, members) is not None) == is_one_free


@settings(REPEATABLE, max_examples=100)
@given(members=st.lists(filters, max_size=5), shown=st.lists(filters, max_size=3))
def test_a_right_summary_and_its_members_match_the_same_points(
    members: list[Predicate], shown: list[Predicate]
) -> None:
    if is_right([str(one) for one in members], [str(one) for one in shown]):
        for event in EVENTS:
            wanted = any(member.matches(event) for member in members)
            assert any(one.matches(event) for one in shown) == wanted
