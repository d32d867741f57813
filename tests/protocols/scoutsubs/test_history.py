"""Completed events stay at the rendezvous and its replicas, and later subscribers get them."""

from collections.abc import Sequence
from typing import Any

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.scoutsubs.history import History
from smartpubsub.protocols.scoutsubs.messages import Recall, Recalled
from smartpubsub.protocols.scoutsubs.replay import CaughtUp, Past
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.scoutsubs.forest import Forest

HOUR = 60 * MINUTE
ON = ScoutSettings(history_us_max=24 * HOUR)
SMALL_PAGES = ScoutSettings(history_us_max=24 * HOUR, page_count_max=3)


def started(count: int, settings: ScoutSettings | None = None, **options: Any) -> Forest:
    """A network that runs for a second: no event is as old as time."""
    forest = Forest(count, settings, **options)
    forest.run(SECOND)
    return forest


def history(forest: Forest, number: int) -> History:
    return forest.scouts(number)._history


def keepers(forest: Forest, id: EventId, attribute: str = "surf") -> list[int]:
    """The nodes that have an event in their history."""
    question = Recall(attribute, 1, Predicate.parse(attribute), 0, None, 0, id)
    return [n for n in forest.numbers if history(forest, n).answer(question).events]


def recall(forest: Forest, number: int, text: str, past: Past) -> int:
    """Subscribe from the past on."""
    subscription = forest.subscribe(number, text)
    scouts, now = forest.scouts(number), forest.clock(number)
    forest.do(number, scouts.recall(subscription, past, now))
    return subscription


def caught_up(forest: Forest, number: int, subscription: int) -> CaughtUp | None:
    for item in forest.items(number):
        if isinstance(item, CaughtUp) and item.number == subscription:
            return item
    return None


def recalled(forest: Forest, number: int, text: str, past: Past | None = None) -> CaughtUp:
    """Subscribe from the past on, and wait until that has been given."""
    subscription = recall(forest, number, text, past or Past())
    forest.run_until(lambda: caught_up(forest, number, subscription) is not None)
    told = caught_up(forest, number, subscription)
    assert told is not None
    return told


def published(forest: Forest, publishers: Sequence[int], count: int) -> list[EventId]:
    """Events one after the other, by turns."""
    return [
        forest.published(publishers[n % len(publishers)], f"surf/price={n}") for n in range(count)
    ]


# --- keeping ---


def test_a_completed_event_stays_at_the_rendezvous_and_its_replicas() -> None:
    forest = started(8, ON)
    id = forest.published(5, "surf/price=1", wants_all=True)
    forest.run_until(lambda: forest.is_confirmed(id))
    forest.run(SECOND)

    assert keepers(forest, id) == [0, 1, 2]
    assert forest.holders(id) == []


def test_nothing_stays_unless_that_is_wanted() -> None:
    forest = started(8)
    id = forest.published(5, "surf/price=1")

    assert keepers(forest, id) == []
    assert recalled(forest, 6, "surf").oldest_us == 0


def test_keeping_takes_no_messages() -> None:
    def messages(settings: ScoutSettings) -> list[object]:
        forest = started(8, settings)
        forest.subscribed(6, "surf/price[3,]")
        published(forest, (4, 5), 6)
        forest.run(MINUTE)
        return [*forest.said]

    assert messages(ON) == messages(ScoutSettings())


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        (ScoutSettings(history_us_max=HOUR, history_count_max=4), 4),
        (ScoutSettings(history_us_max=HOUR, history_bytes_max=5_000), 4),
        (ScoutSettings(history_us_max=5 * MINUTE), 2),
    ],
    ids=["count", "bytes", "age"],
)
def test_the_oldest_go_first(settings: ScoutSettings, kept: int) -> None:
    forest = started(6, settings)
    before = [forest.published(4, "surf") for _ in range(6)]
    forest.run(6 * MINUTE)
    ids = before + [forest.published(4, "surf") for _ in range(2)]
    forest.run(MINUTE)

    told = recalled(forest, 5, "surf")

    assert forest.received(5) == ids[-kept:]
    assert told.given == kept
    oldest = next(d.event for d in forest.deliveries(5))
    assert told.oldest_us == oldest.created_us
    stored = [key for key in forest.host(0).storage if key.startswith(b"scout/record/")]
    assert len(stored) == len(history(forest, 0)) == kept
    assert all(bound.held <= bound.held_max for bound in forest.scouts(0).tally().bounds)


@pytest.mark.parametrize(
    "settings",
    [
        ScoutSettings(history_us_max=HOUR, history_count_max=10),
        ScoutSettings(history_us_max=HOUR, history_bytes_max=12_000),
    ],
    ids=["count", "bytes"],
)
def test_the_publisher_that_has_most_makes_room_and_history_is_not_called_whole(
    settings: ScoutSettings,
) -> None:
    forest = started(6, settings)
    modest = [forest.published(3, "surf") for _ in range(3)]
    assert recalled(forest, 5, "surf").is_whole
    for _ in range(30):
        forest.published(4, "surf")
    forest.run(MINUTE)

    assert all(keepers(forest, id) for id in modest)
    assert not recalled(forest, 2, "surf").is_whole
    assert set(modest) <= set(forest.received(2))


@pytest.mark.parametrize("created_us", [0, HOUR], ids=["no time", "a time to come"])
def test_an_event_whose_time_cannot_be_right_is_delivered_but_does_not_stay(
    created_us: int,
) -> None:
    forest = started(6, ON)
    forest.subscribed(5, "surf")
    id = EventId(forest.contacts[4].peer, 0, 1)
    surf = Predicate.parse("surf")
    signature = StandInSigning(id.publisher).sign(id, surf, b"")
    event = Publication.of(id, surf, b"", signature, created_us)
    forest.do(4, forest.scouts(4).publish(event, forest.clock(4)))
    forest.run_until(lambda: forest.received(5) == [id])

    assert keepers(forest, id) == []
    assert forest.rejected(0)["history"] == 1


def test_history_survives_a_restart() -> None:
    forest = started(6, ScoutSettings(backups=0, history_us_max=HOUR, history_count_max=5))
    ids = published(forest, (4,), 6)
    forest.run(MINUTE)
    forest.crash(*forest.numbers)
    forest.restart(*forest.numbers)
    forest.run(10 * SECOND)

    assert recalled(forest, 5, "surf").given == 5
    assert forest.received(5) == ids[1:]
    more = forest.published(4, "surf")  # And the limit holds on.
    assert keepers(forest, ids[1]) == []
    assert keepers(forest, more) == [0]


def test_stored_events_that_are_too_old_are_removed() -> None:
    forest = started(6, ScoutSettings(history_us_max=10 * MINUTE))
    published(forest, (4,), 3)
    forest.run(MINUTE)
    forest.crash(0)
    forest.run(20 * MINUTE)
    forest.restart(0)
    forest.run(2 * MINUTE)

    assert not [key for key in forest.host(0).storage if key.startswith(b"scout/record/")]
    assert not [key for key in forest.host(0).storage if key.startswith(b"scout/done/")]


# --- reading ---


def test_a_late_subscriber_gets_the_past_in_order_and_then_new_events() -> None:
    forest = started(12, SMALL_PAGES)
    past = published(forest, (3, 9, 5), 20)

    told = recalled(forest, 8, "surf/price[5,]")
    more = published(forest, (9, 3), 10)
    forest.run(5 * SECOND)

    assert told.given == 15
    assert forest.received(8) == past[5:] + more[5:]


def test_a_rendezvous_replays_its_own_history() -> None:
    forest = started(6, SMALL_PAGES)
    past = published(forest, (3, 4), 10)

    recalled(forest, 0, "surf")

    assert forest.received(0) == past


def test_a_node_that_is_alone_replays_its_own_history() -> None:
    forest = started(1, SMALL_PAGES)
    past = published(forest, (0,), 10)

    assert recalled(forest, 0, "surf", Past(last=7)).given == 7
    assert forest.received(0) == past[3:]


def test_since_a_time() -> None:
    forest = started(8, SMALL_PAGES)
    published(forest, (3,), 5)
    forest.run(SECOND)
    since_us = forest.clock(0)
    late = published(forest, (4,), 5)

    recalled(forest, 6, "surf", Past(since_us=since_us))

    assert forest.received(6) == late


def test_since_an_event_by_the_end_of_its_publishers_id() -> None:
    forest = started(8, SMALL_PAGES)
    past = published(forest, (3, 4), 10)
    since = past[3]._replace(publisher=past[3].publisher[-8:])

    recalled(forest, 6, "surf/price[,8]", Past(since=since))

    assert forest.received(6) == past[4:9]


@pytest.mark.parametrize("last", [1, 3, 4, 10, 50])
def test_a_replay_of_the_last_events(last: int) -> None:
    forest = started(8, SMALL_PAGES)
    past = published(forest, (3, 4), 10)

    recalled(forest, 6, "surf", Past(last=last))

    assert forest.received(6) == past[-last:]


def test_a_replay_after_an_unknown_event_fails() -> None:
    forest = started(8, ON)
    past = published(forest, (3, 4), 4)
    unknown = past[0]._replace(number=99)

    told = recalled(forest, 6, "surf", Past(since=unknown))

    assert "no node keeps an event" in told.problem
    assert str(unknown) in told.problem
    id = forest.published(3, "surf")
    forest.run(SECOND)
    assert forest.received(6) == [id]  # It is in force all the same.


def test_more_than_can_be_read_is_said_and_nothing_of_it_given() -> None:
    forest = started(8, ScoutSettings(history_us_max=HOUR, page_count_max=3, recalled_count_max=8))
    past = published(forest, (3, 4), 10)

    told = recalled(forest, 6, "surf")

    assert "ask for less" in told.problem
    assert forest.received(6) == []
    recalled(forest, 7, "surf", Past(last=8))
    assert forest.received(7) == past[-8:]


def test_the_number_of_replays_is_bounded() -> None:
    forest = started(8, ScoutSettings(history_us_max=HOUR, recall_count_max=2))
    published(forest, (3, 4), 2)
    numbers = [recall(forest, 6, "surf", Past()) for _ in range(3)]
    forest.run(5 * SECOND)

    told = [caught_up(forest, 6, number) for number in numbers]

    assert ["too many" in item.problem for item in told if item] == [False, False, True]
    assert forest.rejected(6)["recalls"] == 1


def test_two_subscriptions_of_a_node_get_each_their_own_past() -> None:
    forest = started(8, ON)
    early = forest.subscribed(6, "surf/price[,3]")
    past = published(forest, (3, 4), 6)
    late = recalled(forest, 6, "surf", Past(last=4)).number
    more = published(forest, (3,), 3)
    forest.run(5 * SECOND)

    given = [(d.event.id, n) for d in forest.deliveries(6) for n in d.subscriptions]
    assert [id for id, n in given if n == early] == past[:4] + more
    assert [id for id, n in given if n == late] == past[2:] + more


def test_an_unsubscribe_ends_a_replay() -> None:
    forest = started(8, ON)
    published(forest, (3, 4), 6)
    subscription = recall(forest, 6, "surf", Past())
    forest.run_until(lambda: forest.is_in_force(6, subscription))
    forest.unsubscribe(6, subscription)
    forest.run(10 * SECOND)

    assert forest.received(6) == []
    assert forest.held(6, "replays") == 0


# --- what others say need not be so ---


def test_a_keeper_that_forges_events_is_not_asked_again_and_others_answer_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forest = started(8, SMALL_PAGES)
    past = published(forest, (3, 4), 10)
    honest = history(forest, 0).answer

    def lie(part: Recall) -> Recalled:
        told = honest(part)
        changed = told.events[1]._replace(signature=b"x" * 64)
        return told._replace(events=(told.events[0], changed), has_more=True)

    monkeypatch.setattr(history(forest, 0), "answer", lie)
    recalled(forest, 6, "surf")

    assert forest.received(6) == past
    assert forest.rejected(6)["recalled events"] == 1
    assert forest.count(Recall)[0] == 1


def test_a_keeper_that_repeats_its_answer_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forest = started(8, SMALL_PAGES)
    past = published(forest, (3, 4), 10)
    honest = history(forest, 0).answer

    def repeat(part: Recall) -> Recalled:
        told = honest(part._replace(since_us=0, after=None))
        return told._replace(has_more=True)

    monkeypatch.setattr(history(forest, 0), "answer", repeat)
    recalled(forest, 6, "surf")

    assert forest.received(6) == past
    assert forest.count(Recall)[0] == 2


def test_events_that_do_not_match_or_were_not_asked_for_are_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forest = started(8, ON)
    past = published(forest, (3, 4), 10)
    honest = history(forest, 0).answer
    everything = Predicate.parse("surf")
    monkeypatch.setattr(
        history(forest, 0), "answer", lambda part: honest(part._replace(predicate=everything))
    )
    unasked = Recalled("surf", 1, tuple(history(forest, 1)._kept.values()), False, 1)
    forest.receive(1, 6, unasked)

    recalled(forest, 6, "surf/price[8,]")

    assert forest.received(6) == past[8:]
