"""Any node may send events down a tree; what it sends takes a share of the room of a node."""

from dataclasses import replace

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.scoutsubs.messages import NO_PEER, WHOLE, Announce, Notify
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.scoutsubs.forest import Forest, chain

BYTES_MAX = 64 << 10
SMALL = ScoutSettings(relayed_bytes_max=BYTES_MAX, record_count_max=10)
STRANGER = 7


def relayed(forest: Forest, number: int) -> int:
    """The size of the events of others that are in flight at a node."""
    return forest.held(number, "bytes of relayed events")


def stranger_at(forest: Forest, number: int) -> None:
    """Have a node announce a filter to another, and confirm no events."""
    wanted = (Predicate.parse("surf/mine"),)
    announcement = Announce("surf", 1, 1, WHOLE, wanted, (), None, (), False)
    forest.send(STRANGER, number, announcement)
    forest.run(SECOND)


def send_events(forest: Forest, number: int, first: int, count: int, payload: bytes = b"") -> None:
    """Have the stranger send events down the tree, straight to a node."""
    peer, predicate = forest.contacts[STRANGER].peer, Predicate.parse("surf/mine")
    for n in range(first, first + count):
        id = EventId(peer, 1, n)
        signature = StandInSigning(peer).sign(id, predicate, payload)
        event = Publication.of(id, predicate, payload, signature)
        forest.send(STRANGER, number, Notify(event, "surf", 1, False, NO_PEER))
    forest.run(SECOND)


def confirm_nothing(forest: Forest, monkeypatch: pytest.MonkeyPatch) -> None:
    dissemination = forest.scouts(STRANGER)._dissemination
    monkeypatch.setattr(dissemination, "_confirm", lambda *_: None)


def test_events_that_a_stranger_sends_down_a_tree_refuse_no_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forest = Forest(8, SMALL)
    forest.subscribed(5, "surf/x")
    stranger_at(forest, 0)
    confirm_nothing(forest, monkeypatch)
    send_events(forest, 0, 1, 100)

    assert 0 < relayed(forest, 0) <= BYTES_MAX // 2
    assert forest.rejected(0)["events"] > 50
    ids = [forest.published(3, "surf/x") for _ in range(5)]
    assert forest.received(5) == ids
    assert forest.refusals() == []


def test_large_events_that_a_stranger_sends_take_a_limited_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forest = Forest(8, replace(SMALL, relayed_bytes_max=4 << 20))
    stranger_at(forest, 0)
    confirm_nothing(forest, monkeypatch)
    send_events(forest, 0, 1, 30, bytes(500_000))

    assert 1_000_000 < relayed(forest, 0) <= 2 << 20


def test_events_of_a_stranger_leave_room_for_those_of_a_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forest = Forest(8, SMALL)
    forest.subscribed(2, "surf")
    forest.subscribed(5, "surf/x")
    forest.move(5, 2)
    forest.run(SECOND)
    assert 5 in forest.children(2)
    stranger_at(forest, 2)
    confirm_nothing(forest, monkeypatch)
    send_events(forest, 2, 1, 100)
    assert relayed(forest, 2) > BYTES_MAX // 4

    before = forest.world.now
    ids = [forest.published(3, "surf/x") for _ in range(5)]
    forest.run_until(lambda: set(ids) <= set(forest.received(5)))
    assert forest.world.now - before < SECOND


def test_relayed_events_that_are_late_by_age_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = Forest(8, replace(SMALL, late_us=MINUTE))
    stranger_at(forest, 0)
    confirm_nothing(forest, monkeypatch)
    send_events(forest, 0, 1, 100)
    full = relayed(forest, 0)
    assert forest.rejected(0)["late events"] == 0
    forest.run(MINUTE + SECOND)
    send_events(forest, 0, 101, 10)

    assert forest.rejected(0)["late events"] == 10
    assert full // 2 < relayed(forest, 0) <= full


def test_the_late_relayed_events_of_a_child_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = Forest(8, replace(SMALL, late_us=MINUTE, late_count_max=3))
    stranger_at(forest, 0)
    confirm_nothing(forest, monkeypatch)
    send_events(forest, 0, 1, 10)
    before = relayed(forest, 0)
    forest.run(2 * MINUTE)

    assert relayed(forest, 0) == before * 3 // 10


def test_confirmed_relayed_events_take_no_room() -> None:
    forest = chain(6, SMALL)
    forest.subscribed(5, "surf")
    ids = [forest.published(3, "surf") for _ in range(20)]
    forest.run(10 * SECOND)

    assert forest.received(5) == ids
    assert [relayed(forest, n) for n in forest.numbers] == [0] * 6


@pytest.mark.parametrize("pause_us", [20 * SECOND, 2 * MINUTE])
def test_a_relay_without_room_for_a_slow_subscriber_loses_nothing(pause_us: int) -> None:
    settings = replace(SMALL, relayed_bytes_max=16 << 10, record_count_max=1_000)
    forest = chain(6, settings)
    for number in (4, 5):
        forest.subscribed(number, "surf")
    forest.world.pause(forest.host(5), forest.world.now + pause_us)
    ids = [forest.published(2, "surf") for _ in range(30)]
    assert max(forest.rejected(n)["events"] for n in forest.numbers) > 0
    forest.run(pause_us + 3 * MINUTE)

    assert sorted(forest.received(4)) == sorted(forest.received(5)) == sorted(ids)
    assert forest.refusals() == []
