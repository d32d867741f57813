"""A replay is complete and delivers once, while nodes crash and join and messages are lost."""

from collections.abc import Iterable
from itertools import product

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.scoutsubs.messages import Recall, Recalled
from smartpubsub.protocols.scoutsubs.replay import Past
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.sim.kernel.streams import stream
from tests.protocols.scoutsubs.forest import Forest
from tests.protocols.scoutsubs.test_history import (
    ON,
    SMALL_PAGES,
    caught_up,
    published,
    recall,
    recalled,
    started,
)

SEEDS = range(1, 9)


def wait_for_the_past(forest: Forest, number: int, subscription: int) -> None:
    forest.run_until(lambda: caught_up(forest, number, subscription) is not None, 5 * MINUTE)


def test_the_replicas_tell_when_the_rendezvous_has_crashed() -> None:
    forest = started(8, SMALL_PAGES)
    past = published(forest, (5, 6), 10)
    forest.run(SECOND)
    forest.crash(0)

    told = recalled(forest, 7, "surf")

    assert forest.received(7) == past
    assert told.oldest_us


def test_as_many_keepers_as_replicas_may_crash_during_a_replay() -> None:
    forest = started(10, SMALL_PAGES)
    past = published(forest, (5, 6), 12)
    subscription = recall(forest, 7, "surf", Past())
    forest.run_until(lambda: forest.is_in_force(7, subscription))
    forest.run_until(lambda: any(isinstance(said.part, Recalled) for said in forest.said))
    forest.crash(0, 2)
    wait_for_the_past(forest, 7, subscription)

    told = caught_up(forest, 7, subscription)
    assert told is not None
    assert not told.problem
    assert forest.received(7) == past


def test_if_too_many_do_not_answer_that_is_said() -> None:
    forest = started(10, SMALL_PAGES)
    published(forest, (8, 9), 6)
    subscription = recall(forest, 7, "surf", Past())
    forest.run_until(lambda: any(isinstance(said.part, Recall) for said in forest.said))
    forest.crash(0, 1, 2)
    wait_for_the_past(forest, 7, subscription)

    told = caught_up(forest, 7, subscription)
    assert told is not None
    assert "do not answer" in told.problem
    assert forest.received(7) == []


def test_newcomers_that_have_nothing_hide_nothing() -> None:
    forest = started(12, ON, absent=[0, 1, 2])
    past = published(forest, (8, 9), 6)
    for newcomer in (2, 1, 0):
        forest.join(newcomer, by_way_of=10)
    forest.run(MINUTE)
    more = published(forest, (8, 9), 4)

    recalled(forest, 7, "surf")

    assert forest.roots() == [0]
    assert forest.received(7) == past + more


def test_a_keeper_without_history_does_not_delay_a_replay() -> None:
    forest = started(8, SMALL_PAGES)
    past = published(forest, (5, 6), 10)
    forest.scouts(1)._on_part[Recall] = lambda *_: None
    forest.crash(2)
    forest.restart(2)  # Before it has its place it hears nothing.

    recalled(forest, 7, "surf")

    assert forest.received(7) == past


class Traffic:
    """Events of a few publishers, all the time."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.ids: list[EventId] = []
        self._rng = stream(forest.seed, "history")

    def publish(self, count: int) -> None:
        for _ in range(count):
            publisher = self._rng.randrange(6, 14)
            event = f"surf/price={self._rng.randrange(10)}"
            self.ids.append(self.forest.publish(publisher, event))
            self.forest.run(self._rng.randrange(60_000))

    def wait_until_all_have_all(self, readers: Iterable[int]) -> None:
        for _ in range(18):
            self.forest.run(10 * SECOND)
            if all(len(self.forest.received(n)) >= len(self.ids) for n in readers):
                break
        self.forest.run(10 * SECOND)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_missing_and_nothing_comes_twice(seed: int) -> None:
    """In some worlds the rendezvous crashes meanwhile, in some messages get lost."""
    forest = started(16, ScoutSettings(history_us_max=60 * MINUTE, page_count_max=4), seed=seed)
    traffic = Traffic(forest)
    traffic.publish(30)
    forest.run(5 * SECOND)
    readers = {14: "surf", 15: "surf/price[,10]", 3: "surf"}
    subscriptions = {n: recall(forest, n, text, Past()) for n, text in readers.items()}
    traffic.publish(5)
    if seed % 4 in (1, 2):
        forest.crash(0)
    if seed % 4 in (2, 3):
        forest.lose(0.1)
    traffic.publish(20)
    for number, subscription in subscriptions.items():
        wait_for_the_past(forest, number, subscription)
    traffic.publish(10)
    traffic.wait_until_all_have_all(readers)

    for number in readers:
        assert sorted(forest.received(number)) == sorted(traffic.ids)
    if seed % 4 == 0:  # Where nothing fails, every publisher's order is kept.
        for number, publisher in product(readers, range(6, 14)):
            peer = forest.contacts[publisher].peer
            of_one = [id for id in forest.received(number) if id.publisher == peer]
            assert of_one == sorted(of_one)
