"""The numbers of a run."""

from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.baselines.floodsub import Floodsub
from smartpubsub.protocols.publication import EventId
from smartpubsub.sim.judging.checkers.order import inversions
from smartpubsub.sim.judging.verdict import Verdict, verdict_on
from tests.matching.strategies import REPEATABLE
from tests.sim.checkers.broken import (
    Deaf,
    Fickle,
    Forgetful,
    Indiscriminate,
    Procrastinating,
    Shuffling,
    Stuttering,
)
from tests.sim.checkers.world import Protocol, SmallWorld


def verdict(protocol: Protocol) -> Verdict:
    world = SmallWorld(protocol)
    world.subscribe(0, "surf")
    world.subscribe(1, "surf/price[10,20]")
    world.subscribe(1, "price")
    world.subscribe(2, "chess")
    number = world.subscribe(3, "surf")
    for price in range(10):
        world.publish(0, f"surf/price={price + 11}")
        world.run(SECOND // 10)
    world.run(10 * SECOND)
    world.unsubscribe(3, number)
    world.run(SECOND)
    world.publish(0, "surf/price=15")
    world.run(MINUTE)
    return verdict_on(world.facts())


HONEST = Verdict(
    injected=11,
    published=11,
    expected=10 * 3 + 2,
    delivered=32,
    missing=0,
    unexpected=0,
    app_duplicates=0,
    order_violations=0,
    coverage_injected=1.0,
    coverage_published=1.0,
    delivered_within_ms={},
)


def differing(protocol: Protocol) -> dict[str, object]:
    honest = HONEST.document()
    found = replace(verdict(protocol), delivered_within_ms={}).document()
    return {name: v for name, v in found.items() if v != honest[name]}


def test_numbers_of_an_honest_run() -> None:
    found = verdict(Floodsub)

    assert replace(found, delivered_within_ms={}) == HONEST
    assert list(found.delivered_within_ms) == ["p50", "p95", "p99", "p999", "max"]
    assert all(found.delivered_within_ms.values())


def test_a_share_that_never_came_has_no_time() -> None:
    found = verdict(Forgetful).delivered_within_ms

    assert found["p50"] is not None
    assert found["p99"] is None


def test_each_broken_promise_shows_in_its_number() -> None:
    share = 30 / 32
    lost = {"coverage_injected": share, "coverage_published": share}
    assert differing(Forgetful) == {"delivered": 30, "missing": 2, **lost}
    assert differing(Deaf) == {"unexpected": 1}
    # Two subscriptions of node 1 and one of node 3 are told everything twice.
    assert differing(Stuttering) == {"app_duplicates": 2 * 11 + 10}
    # Nodes 2 and 3 get too much: all eleven events, and the one after the unsubscribe.
    assert differing(Indiscriminate) == {"unexpected": 11 + 1}
    # Events 3, 6 and 9 share one timer, so 3 and 6 never go out and 9 comes after 10.
    shuffled = differing(Shuffling)
    assert shuffled["order_violations"] == 4


def test_nothing_refused_is_injected_and_nothing_expected_is_fully_covered() -> None:
    refused = verdict(Fickle)

    assert (refused.injected, refused.published, refused.expected) == (0, 0, 0)
    assert (refused.coverage_injected, refused.coverage_published) == (1.0, 1.0)


def test_coverage_of_what_was_acknowledged_leaves_the_rest_out() -> None:
    world = SmallWorld(Procrastinating)
    world.subscribe(1, "surf")
    world.publish(0, "surf")
    world.run(2 * SECOND)
    id = world.publish(0, "surf")
    world.journal.events[id].acknowledged_us = None

    found = verdict_on(world.facts())

    assert (found.injected, found.published, found.expected, found.delivered) == (2, 1, 2, 1)
    assert (found.coverage_injected, found.coverage_published) == (0.5, 1.0)


@REPEATABLE
@given(st.lists(st.integers(0, 20)))
def test_inversions_are_counted(numbers: list[int]) -> None:
    ids = [EventId(b"publisher", number % 3, number) for number in numbers]

    assert inversions(ids) == sum(one > other for one, other in combinations(ids, 2))
