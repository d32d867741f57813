"""After a crash a node has what it had acknowledged, even if no other node has it."""

from random import Random

import pytest

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.settings import MINUTE, SECOND, Settings
from smartpubsub.protocols.scoutsubs.messages import Notify, Record
from smartpubsub.protocols.scoutsubs.persistence import STORED, Persistence
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Loaded, Started, Store
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.scoutsubs.forest import Forest, chain, contacts_around

HOUR = 60 * MINUTE
ALONE = ScoutSettings(backups=0)
"""Only the rendezvous has any state."""


def stored(forest: Forest, number: int, what: bytes) -> list[bytes]:
    prefix = STORED + what
    return [key for key in forest.host(number).storage if key.startswith(prefix)]


def copies(forest: Forest) -> int:
    return sum(isinstance(said.part, Notify) for said in forest.said)


def with_an_open_event(forest: Forest) -> None:
    """Have an event acknowledged that the subscriber, the last node, does not have."""
    last = forest.numbers[-1]
    forest.subscribed(last, "surf/price[10,20]")
    forest.crash(last)
    forest.published(1, "surf/price=15")


def events_after_restart(forest: Forest) -> int:
    """Start the rendezvous again, then the subscriber; how many events the subscriber gets."""
    forest.restart(0)
    forest.run(5 * SECOND)
    forest.restart(4)
    forest.run(2 * MINUTE)
    return len(forest.received(4))


@pytest.mark.parametrize("settings", [ALONE, ScoutSettings()], ids=["alone", "with backups"])
def test_an_acknowledged_event_survives_when_all_are_killed_at_once(
    settings: ScoutSettings,
) -> None:
    forest = Forest(5, settings)
    with_an_open_event(forest)
    forest.crash(0, 1, 2, 3)
    forest.run(SECOND)
    forest.restart(*forest.numbers)
    forest.run(2 * MINUTE)

    [event] = forest.received(4)
    assert event.publisher == forest.contacts[1].peer
    # Who was not there yet when it was said that all have it keeps it until it lapses.
    forest.run(40 * MINUTE)
    assert not any(stored(forest, number, b"record/") for number in forest.numbers)


def test_an_acknowledged_event_survives_when_only_its_rendezvous_has_it() -> None:
    forest = Forest(5, ALONE)
    with_an_open_event(forest)
    forest.crash(0)

    assert events_after_restart(forest) == 1


@pytest.mark.parametrize("set_us", [12 * HOUR, 40 * MINUTE, -40 * MINUTE, -12 * HOUR])
def test_an_acknowledged_event_survives_though_the_clock_is_set_while_its_rendezvous_is_down(
    set_us: int,
) -> None:
    """The node would take the event for one that is too old to be sent."""
    forest = Forest(5, ALONE)
    forest.run(13 * HOUR)
    with_an_open_event(forest)
    forest.crash(0)
    forest.host(0).skew_us = forest.host(0).clock_set_us = set_us
    forest.restart(0)
    forest.run(2 * MINUTE)
    forest.crash(0)  # It has stored the time anew.
    forest.host(0).clock_set_us = 0

    assert events_after_restart(forest) == 1


def test_an_event_survives_a_crash_before_the_node_joins_though_the_clock_was_set() -> None:
    """The host tells a node only at the next start by how much the clock was set."""
    forest = Forest(5, ALONE)
    forest.run(13 * HOUR)
    with_an_open_event(forest)
    forest.crash(0)
    forest.host(0).skew_us = forest.host(0).clock_set_us = 12 * HOUR
    forest.restart(0)
    forest.run(1)
    assert forest.scouts(0)._is_loaded
    assert not forest.scouts(0)._has_joined
    forest.crash(0)
    forest.host(0).clock_set_us = 0

    assert events_after_restart(forest) == 1


@pytest.mark.parametrize("set_us", [40 * MINUTE, -40 * MINUTE])
def test_an_event_lapses_at_the_same_age_though_the_clock_is_set(set_us: int) -> None:
    forest = Forest(5, ALONE)
    forest.run(HOUR)
    with_an_open_event(forest)
    forest.crash(0)
    forest.host(0).skew_us = forest.host(0).clock_set_us = set_us
    forest.restart(0)

    forest.run(29 * MINUTE)
    assert stored(forest, 0, b"record/")
    forest.run(10 * MINUTE)  # The node retransmits it seldom by now.
    assert not stored(forest, 0, b"record/")


def test_history_survives_though_the_clock_is_set_back() -> None:
    forest = Forest(5, ScoutSettings(backups=0, history_us_max=24 * HOUR))
    forest.run(HOUR)
    forest.subscribed(4, "surf")
    forest.published(1, "surf")
    forest.run(MINUTE)
    forest.crash(0)
    forest.host(0).skew_us = -40 * MINUTE
    forest.restart(0)
    forest.run(2 * MINUTE)

    assert len(forest.scouts(0)._history) == 1
    assert stored(forest, 0, b"record/")


def test_events_at_a_replica_survive_its_crash() -> None:
    forest = Forest(5, ScoutSettings(backups=1))
    with_an_open_event(forest)
    forest.crash(0)  # For ever.
    forest.crash(1)
    forest.restart(1, 4)
    forest.run(5 * MINUTE)

    assert len(forest.received(4)) == 1


def test_an_event_of_a_rendezvous_that_is_none_any_more_is_handed_on() -> None:
    forest = Forest(6, ALONE, absent=[0])
    forest.subscribed(5, "surf/price[10,20]")
    forest.crash(5)
    forest.published(2, "surf/price=15")
    assert forest.roots() == [1]
    forest.crash(1)
    forest.join(0, by_way_of=2)
    forest.restart(1, 5)
    forest.run(5 * MINUTE)

    assert forest.roots() == [0]
    assert len(forest.received(5)) == 1


def test_filters_of_children_survive_a_restart_of_their_parent() -> None:
    forest = Forest(5, ALONE)
    for number in (3, 4):
        forest.subscribed(number, "surf")
    assert len(stored(forest, 0, b"child/")) == 2
    forest.crash(0)
    forest.restart(0)
    forest.run(SECOND)
    id = forest.publish(2, "surf")
    forest.run(5 * SECOND)

    assert forest.receivers(id) == [3, 4]


def chain_with_a_missed_event() -> Forest:
    """Nodes in a line, of which the last, a subscriber, is down, and all others have restarted.

    The others have joined except for node 4, the parent of the subscriber.
    """
    forest = chain(6, ScoutSettings(redirects=False))
    forest.subscribed(5, "surf")
    forest.run(SECOND)
    forest.crash(5)
    forest.published(0, "surf")
    forest.crash(*range(5))
    forest.restart(*range(5))
    settle(forest, 0, 1)
    for number in (1, 2, 3):
        settle(forest, number, number - 1)
    return forest


def settle(forest: Forest, number: int, known: int) -> None:
    contacts = forest.contacts[known : known + 1]
    forest.do(number, forest.core(number).settle(contacts, forest.clock(number)))


def missed_event_arrives(forest: Forest) -> None:
    forest.run(MINUTE)
    forest.restart(5)
    settle(forest, 5, 4)
    forest.run(2 * MINUTE)
    assert len(forest.received(5)) == 1


def test_filters_of_children_survive_when_the_replicas_restart_too() -> None:
    """Replicas have copies of filters in memory only."""
    forest = chain_with_a_missed_event()
    settle(forest, 4, 3)
    missed_event_arrives(forest)


def test_filters_of_children_survive_where_the_parent_is_found_late() -> None:
    forest = chain_with_a_missed_event()
    membership = forest.scouts(4)._membership
    vars(membership)["_seek"] = lambda *_, **__: None  # As long as a lookup takes.
    settle(forest, 4, 3)
    forest.run(5 * SECOND)
    assert forest.scouts(4)._recovery.is_ready
    del vars(membership)["_seek"]
    forest.move(4, 3)
    missed_event_arrives(forest)


def test_stored_filters_do_not_count_where_another_rendezvous_knows_better() -> None:
    forest = Forest(6)
    for number in (4, 5):
        forest.subscribed(number, "surf")
    forest.crash(0)
    forest.run(3 * MINUTE)
    assert forest.roots() == [1]
    forest.restart(0)
    forest.run(3 * MINUTE)
    assert forest.roots() == [0]
    before = copies(forest)
    id = forest.published(2, "surf", wants_all=True)
    forest.run(20 * SECOND)

    assert forest.receivers(id) == [4, 5]
    assert copies(forest) - before <= 3, "a stale child was sent a copy too"


def test_completed_events_are_not_stored_any_more() -> None:
    forest = Forest(5)
    number = forest.subscribed(4, "surf")
    for _ in range(3):
        forest.published(2, "surf", wants_all=True)
    forest.run(5 * SECOND)
    forest.unsubscribed(4, number)
    forest.run(SECOND)

    for number in forest.numbers:
        assert stored(forest, number, b"") == []
        assert forest.held(number, "stored bytes") == 0


def marked() -> tuple[Forest, Persistence]:
    """A rendezvous with three completed events, whose marks are stored."""
    forest = Forest(2, ScoutSettings(backups=0, history_us_max=HOUR))
    forest.run(SECOND)
    for _ in range(3):
        forest.published(1, "surf")
    assert stored(forest, 0, b"done/") == []
    forest.run(2 * SECOND)
    return forest, forest.scouts(0)._persistence


def test_the_marks_of_completed_events_are_stored_together() -> None:
    forest, _ = marked()
    assert len(stored(forest, 0, b"record/")) == 3
    assert len(stored(forest, 0, b"done/")) == 1
    forest.published(1, "surf")
    forest.run(2 * SECOND)
    assert len(stored(forest, 0, b"done/")) == 2

    forest.crash(0)
    forest.restart(0)
    forest.run(SECOND)
    persistence = forest.scouts(0)._persistence
    persistence.check()
    assert persistence.take_records() == []
    assert len(forest.scouts(0)._history) == 4
    forest.published(1, "surf")
    forest.run(2 * SECOND)
    assert len(stored(forest, 0, b"done/")) == 3


def test_an_event_is_in_custody_after_a_restart_if_its_mark_was_not_stored() -> None:
    forest, _ = marked()
    forest.published(1, "surf")
    forest.crash(0)
    storage = forest.host(0).storage
    loaded = tuple(sorted(item for item in storage.items() if item[0].startswith(STORED)))
    fresh = Forest(2, ScoutSettings(backups=0, history_us_max=HOUR)).scouts(0)._persistence

    assert len(fresh.on_loaded(loaded)) == 3
    assert len(fresh.take_records()) == 1


def test_an_event_that_is_in_custody_again_is_not_marked() -> None:
    forest, persistence = marked()
    event = next(iter(forest.scouts(0)._history._kept.values()))
    record = Record(event, "surf", 0, False, 0)
    persistence.keep_record(record, forest.contacts[0].peer)
    forest.do(0, forest.scouts(0)._outbox.take())
    persistence.check()
    loaded = tuple(item for item in forest.host(0).storage.items() if item[0].startswith(STORED))
    fresh = Forest(2, ScoutSettings(backups=0, history_us_max=HOUR)).scouts(0)._persistence

    assert len(fresh.on_loaded(loaded)) == 2
    assert [kept.event.id for _, kept in fresh.take_records()] == [event.id]
    fresh.check()


def test_marks_of_earlier_versions_are_read() -> None:
    forest, _ = marked()
    storage = forest.host(0).storage
    records = [key for key in storage if key.startswith(STORED + b"record/")]
    loaded = [(key, storage[key]) for key in records]
    loaded.append((records[0].replace(b"record/", b"done/"), b""))
    fresh = Forest(2, ScoutSettings(backups=0, history_us_max=HOUR)).scouts(0)._persistence

    assert len(fresh.on_loaded(loaded)) == 1
    assert len(fresh.take_records()) == 2
    fresh.check()


def test_a_rendezvous_whose_storage_is_full_refuses_events_and_says_so() -> None:
    forest = Forest(5, ScoutSettings(backups=0, stored_bytes_max=1_000))
    forest.subscribed(4, "surf")
    forest.world.pause(forest.host(4), forest.world.now + MINUTE)
    ids = [forest.publish(2, "surf") for _ in range(10)]
    forest.run(10 * SECOND)

    refused = [refusal.id for refusal in forest.refusals()]
    assert 0 < len(refused) < 10
    assert [id for id in ids if id not in refused] == [id for id in ids if forest.is_published(id)]
    # One more may be taken that goes beyond.
    assert forest.held(0, "stored bytes") <= 1_500
    forest.run(2 * MINUTE)
    assert len(forest.received(4)) == 10 - len(refused)


@pytest.mark.parametrize("garbage", [b"", b"\xff", b"\x05peer!", b"\x01p" + bytes(8) + b"\x02\x0a"])
@pytest.mark.parametrize("what", [b"record/", b"child/"])
def test_unreadable_stored_values_are_counted_and_removed(what: bytes, garbage: bytes) -> None:
    own, _ = contacts_around("surf", 2, 1)
    core = ScoutSubs(
        ScoutSettings(), Kademlia(own, Settings(), Random(1)), StandInSigning(own.peer), Random(2)
    )
    core.handle(Started(1), 0)
    key = STORED + what + b"x"

    assert Store(key, None) in core.handle(Loaded(STORED, ((key, garbage),)), 0)
    assert core.tally().refused == {"stored": 1}
    assert [b.held for b in core.tally().bounds if b.what == "stored bytes"] == [0]
