"""What others have is offered, asked for, and asked for again, but not for ever."""

import pytest

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.baselines.rpc import Control, Rpc
from smartpubsub.protocols.publication import EventId
from smartpubsub.seam import Peer
from tests.protocols.alone import Alone, event, forged, peer


def ids(*numbers: int) -> tuple[EventId, ...]:
    return tuple(event(number).id for number in numbers)


def offer(alone: Alone, number: int, *events: int) -> None:
    alone.hear(number, control=Control(ihave=ids(*events)))


def wishes(alone: Alone) -> dict[Peer, tuple[EventId, ...]]:
    return {peer: control.iwant for peer, control in alone.controls().items() if control.iwant}


def told(alone: Alone) -> dict[Peer, tuple[EventId, ...]]:
    return {peer: control.ihave for peer, control in alone.controls().items() if control.ihave}


@pytest.fixture
def alone() -> Alone:
    alone = Alone(30)
    alone.heartbeats()
    alone.take()
    return alone


# --- offering ---


def test_some_outside_the_mesh_are_told_in_three_heartbeats_what_there_is(alone: Alone) -> None:
    alone.hear(alone.mesh[0], event(1))
    alone.take()

    for _ in range(3):
        alone.heartbeats()
        offers = told(alone)
        assert len(offers) == 6
        assert set(offers.values()) == {ids(1)}
        assert not set(offers) & set(alone.core.mesh.members)

    alone.heartbeats()
    assert told(alone) == {}


def test_of_many_peers_a_quarter_is_told() -> None:
    alone = Alone(90)
    alone.heartbeats()
    alone.hear(alone.mesh[0], event(1))
    alone.take()
    alone.heartbeats()

    assert len(told(alone)) == (90 - 6) // 4


def test_of_too_many_events_some_are_told() -> None:
    alone = Alone(10, GossipSettings(ihave_length_max=4))
    alone.heartbeats()
    alone.hear(alone.mesh[0], *map(event, range(9)))
    alone.take()
    alone.heartbeats()

    assert {len(offered) for offered in told(alone).values()} == {4}


# --- being asked ---


def test_whoever_asks_gets_the_event_for_five_heartbeats_and_not_too_often(alone: Alone) -> None:
    alone.hear(alone.mesh[0], event(1))
    alone.take()
    want = Control(iwant=ids(1, 2))

    for _ in range(5):
        alone.hear(20, control=want)
    sent = [send.message for send in alone.take()]
    assert [rpc.publish[0].event for rpc in sent if isinstance(rpc, Rpc)] == [event(1)] * 3

    alone.heartbeats(4)
    alone.take()
    alone.hear(21, control=want)
    assert len(alone.take()) == 1
    alone.heartbeats(1)
    alone.take()
    alone.hear(22, control=want)
    assert alone.take() == []


# --- asking ---


def test_only_what_was_not_seen_is_asked_for(alone: Alone) -> None:
    alone.hear(alone.mesh[0], event(1))
    alone.take()

    offer(alone, 20, 1, 2)
    assert wishes(alone) == {peer(20): ids(2)}
    offer(alone, 20, 1)
    assert wishes(alone) == {}


def test_another_is_asked_if_the_first_does_not_answer(alone: Alone) -> None:
    offer(alone, 20, 1)
    offer(alone, 21, 1)
    assert wishes(alone) == {peer(20): ids(1)}

    alone.heartbeats()
    assert wishes(alone) == {peer(21): ids(1)}

    alone.hear(21, event(1))
    alone.heartbeats(3)
    assert wishes(alone) == {}


def test_whoever_offers_an_event_again_is_asked_again(alone: Alone) -> None:
    offer(alone, 20, 1)
    alone.heartbeats()
    alone.take()

    offer(alone, 20, 1)
    assert wishes(alone) == {peer(20): ids(1)}


def test_an_answer_that_is_forged_does_not_end_the_search(alone: Alone) -> None:
    offer(alone, 20, 1)
    offer(alone, 21, 1)
    alone.take()
    alone.hear(20, forged(1))
    alone.heartbeats()

    assert wishes(alone) == {peer(21): ids(1)}


# --- promises ---


def break_promises(alone: Alone, number: int, count: int) -> None:
    for round_number in range(count):
        offer(alone, number, 1000 + round_number)
        alone.heartbeats()


def test_whoever_offers_and_never_sends_loses_points(alone: Alone) -> None:
    break_promises(alone, 20, 6)
    alone.heartbeats(5)
    assert alone.score(20) == 0  # Messages get lost, so a few are forgiven.

    break_promises(alone, 20, 6)
    alone.heartbeats(5)
    assert alone.score(20) < alone.settings.scores.gossip_threshold
    alone.take()
    offer(alone, 20, 1)
    assert wishes(alone) == {}


def test_a_promise_is_kept_if_the_event_comes_from_anybody(alone: Alone) -> None:
    for number in range(20):
        offer(alone, 20, number)
        alone.heartbeats(2)
        alone.hear(21, event(number))
    alone.heartbeats(5)

    assert alone.score(20) == 0


# --- limits ---


def test_of_a_flood_of_offers_so_many_are_looked_at_in_a_heartbeat(alone: Alone) -> None:
    for number in range(15):
        offer(alone, 20, number)
    asked = [send for send in alone.take() if send.peer == peer(20)]
    assert len(asked) == 10

    alone.heartbeats()
    alone.take()
    offer(alone, 20, 100)
    assert wishes(alone) == {peer(20): ids(100)}


def test_a_peer_is_asked_for_so_many_events_in_a_heartbeat() -> None:
    alone = Alone(30, GossipSettings(ihave_length_max=10))
    offer(alone, 20, *range(50))
    assert wishes(alone) == {peer(20): ids(*range(10))}
    offer(alone, 20, *range(50, 60))
    assert wishes(alone) == {}
    offer(alone, 21, *range(50, 60))
    assert wishes(alone) == {peer(21): ids(*range(50, 60))}


def test_a_node_waits_for_so_many_events_and_not_for_ever() -> None:
    alone = Alone(30, GossipSettings(wish_count_max=15))
    for number in (20, 21, 22):
        offer(alone, number, *range(10 * number, 10 * number + 10))
    held = {bound.what: bound.held for bound in alone.core.inspect().bounds}
    assert held["wished events"] == 15

    alone.now += SECOND
    alone.heartbeats(4)
    held = {bound.what: bound.held for bound in alone.core.inspect().bounds}
    assert held["wished events"] == 0
