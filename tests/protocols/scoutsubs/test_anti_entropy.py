"""History moves to the nodes that are closest to the key."""

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.scoutsubs.messages import Inherit, Recall
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from tests.protocols.scoutsubs.forest import Forest
from tests.protocols.scoutsubs.test_history import (
    ON,
    SMALL_PAGES,
    history,
    keepers,
    published,
    recalled,
    started,
)

BRISK = ScoutSettings(history_us_max=24 * 60 * MINUTE, renew_us=2 * MINUTE, page_count_max=5)


def kept(forest: Forest, number: int) -> int:
    return sum(span.amount for span in history(forest, number).spans("surf"))


def wait_for(forest: Forest, ids: list[EventId], *numbers: int) -> None:
    forest.run_until(lambda: all(kept(forest, n) == len(ids) for n in numbers), 5 * MINUTE)


def wait_until_published(forest: Forest, ids: list[EventId]) -> None:
    forest.run_until(lambda: all(map(forest.is_published, ids)), 5 * MINUTE)


def test_a_newcomer_closest_to_the_key_gets_the_history() -> None:
    forest = started(12, SMALL_PAGES, absent=[0, 1])
    past = published(forest, (8, 9), 10)
    assert keepers(forest, past[0]) == [2, 3, 4]
    for newcomer in (1, 0):
        forest.join(newcomer, by_way_of=10)

    wait_for(forest, past, 0, 1)
    told = recalled(forest, 7, "surf")
    assert forest.received(7) == past
    assert told.is_whole


def test_keepers_that_are_lost_one_after_the_other_leave_history_whole() -> None:
    forest = started(14, BRISK)
    past = published(forest, (12, 13), 12)
    for lost in range(6):
        forest.crash(lost)
        wait_for(forest, past, lost + 1, lost + 2, lost + 3)

    told = recalled(forest, 11, "surf")
    assert forest.received(11) == past
    assert not told.problem


@pytest.mark.parametrize("seed", range(1, 5))
def test_history_is_whole_under_churn(seed: int) -> None:
    """Nodes crash, come back and come anew, and some messages get lost; f at a time."""
    forest = started(16, BRISK, seed=seed, absent=[0, 3, 5])
    forest.lose(0.05)
    past = published(forest, (14, 15), 10)
    for round_ in range(3):
        forest.crash(1 + 3 * round_, 2 + 3 * round_)
        forest.run(2 * MINUTE)
        forest.join((0, 3, 5)[round_], by_way_of=13)
        past += [forest.publish(14 + n % 2, f"surf/price={n}") for n in range(5)]
        wait_until_published(forest, past)
        forest.run(2 * MINUTE)
        if round_:
            forest.restart(3 * round_ - 2)
            forest.run(2 * MINUTE)

    told = recalled(forest, 12, "surf")
    assert sorted(forest.received(12)) == sorted(past)
    assert not told.problem


def test_fetched_history_survives_a_restart() -> None:
    forest = started(10, SMALL_PAGES, absent=[0])
    past = published(forest, (8, 9), 7)
    forest.join(0, by_way_of=6)
    wait_for(forest, past, 0)
    forest.crash(0, 1, 2, 3)
    forest.restart(0)
    forest.run(10 * SECOND)

    assert kept(forest, 0) == len(past)


def test_a_node_that_was_down_fetches_the_missing_history_and_knows_that_it_is_whole() -> None:
    forest = started(10, ON)
    past = published(forest, (8, 9), 4)
    forest.run(MINUTE)
    forest.crash(1)
    past += published(forest, (8, 9), 4)
    forest.restart(1)
    forest.run(5 * SECOND)
    assert history(forest, 1).whole_us("surf") == 0
    wait_for(forest, past, 1)
    forest.run(MINUTE)

    assert history(forest, 1).whole_us("surf") == history(forest, 0).oldest_us("surf")


def test_if_all_start_again_they_find_that_nothing_is_missing() -> None:
    forest = started(6, ON)
    past = published(forest, (4, 5), 6)
    forest.run(5 * SECOND)
    forest.crash(*range(6))
    forest.restart(*range(6))
    forest.run(2 * MINUTE)

    told = recalled(forest, 5, "surf")
    assert forest.received(5) == past
    assert told.is_whole


def test_before_it_is_known_that_nothing_is_missing_that_is_told() -> None:
    forest = started(12, ON)
    past = published(forest, (10, 11), 6)
    forest.run(5 * SECOND)
    forest.crash(0, 1, 2)
    forest.restart(0, 1, 2)
    forest.run(5 * SECOND)

    told = recalled(forest, 9, "surf")
    assert forest.received(9) == past
    assert not told.is_whole
    forest.run(MINUTE)
    assert recalled(forest, 8, "surf").is_whole


def test_nothing_is_copied_while_no_node_comes_or_goes() -> None:
    forest = started(10, BRISK)
    published(forest, (8, 9), 20)
    forest.run(10 * MINUTE)

    assert any(isinstance(said.part, Inherit) for said in forest.said)
    assert not any(isinstance(said.part, Recall) for said in forest.said)
