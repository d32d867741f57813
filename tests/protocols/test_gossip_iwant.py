"""Events are offered, requested, and requested from other peers, within limits."""

import pytest

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.baselines.messages import Control, Rpc
from smartpubsub.protocols.publication import EventId
from smartpubsub.seam import Peer
from tests.protocols.alone import Alone, event, forged, peer


def ids(*numbers: int) -> tuple[EventId, ...]:
    return tuple(event(number).id for number in numbers)


def offer(alone: Alone, number: int, *events: int) -> None:
    alone.hear(number, control=Control(ihave=ids(*events)))


def requests(alone: Alone) -> dict[Peer, tuple[EventId, ...]]:
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


def test_some_peers_outside_the_mesh_get_gossip_for_three_heartbeats(alone: Alone) -> None:
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


def test_a_quarter_of_many_peers_gets_gossip() -> None:
    alone = Alone(90)
    alone.heartbeats()
    alone.hear(alone.mesh[0], event(1))
    alone.take()
    alone.heartbeats()

    assert len(told(alone)) == (90 - 6) // 4


def test_the_number_of_gossiped_ids_is_limited() -> None:
    alone = Alone(10, GossipSettings(ihave_length_max=4))
    alone.heartbeats()
    alone.hear(alone.mesh[0], *map(event, range(9)))
    alone.take()
    alone.heartbeats()

    assert {len(offered) for offered in told(alone).values()} == {4}


# --- being asked ---


def test_requested_events_are_sent_for_five_heartbeats_and_a_limited_number_of_times(
    alone: Alone,
) -> None:
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


def test_only_unseen_events_are_requested(alone: Alone) -> None:
    alone.hear(alone.mesh[0], event(1))
    alone.take()

    offer(alone, 20, 1, 2)
    assert requests(alone) == {peer(20): ids(2)}
    offer(alone, 20, 1)
    assert requests(alone) == {}


def test_another_peer_is_asked_if_the_first_does_not_answer(alone: Alone) -> None:
    offer(alone, 20, 1)
    offer(alone, 21, 1)
    assert requests(alone) == {peer(20): ids(1)}

    alone.heartbeats()
    assert requests(alone) == {peer(21): ids(1)}

    alone.hear(21, event(1))
    alone.heartbeats(3)
    assert requests(alone) == {}


def test_a_peer_that_offers_an_event_again_is_asked_again(alone: Alone) -> None:
    offer(alone, 20, 1)
    alone.heartbeats()
    alone.take()

    offer(alone, 20, 1)
    assert requests(alone) == {peer(20): ids(1)}


def test_a_forged_answer_does_not_end_a_request(alone: Alone) -> None:
    offer(alone, 20, 1)
    offer(alone, 21, 1)
    alone.take()
    alone.hear(20, forged(1))
    alone.heartbeats()

    assert requests(alone) == {peer(21): ids(1)}


# --- promises ---


def break_promises(alone: Alone, number: int, count: int) -> None:
    for round_number in range(count):
        offer(alone, number, 1000 + round_number)
        alone.heartbeats()


def test_a_peer_that_offers_and_never_sends_loses_points(alone: Alone) -> None:
    break_promises(alone, 20, 6)
    alone.heartbeats(5)
    assert alone.score(20) == 0  # Messages get lost, so a few are forgiven.

    break_promises(alone, 20, 6)
    alone.heartbeats(5)
    assert alone.score(20) < alone.settings.scores.gossip_threshold
    alone.take()
    offer(alone, 20, 1)
    assert requests(alone) == {}


def test_a_promise_is_kept_if_the_event_comes_from_another_peer(alone: Alone) -> None:
    for number in range(20):
        offer(alone, 20, number)
        alone.heartbeats(2)
        alone.hear(21, event(number))
    alone.heartbeats(5)

    assert alone.score(20) == 0


# --- limits ---


def test_the_number_of_offers_of_a_peer_in_a_heartbeat_is_limited(alone: Alone) -> None:
    for number in range(15):
        offer(alone, 20, number)
    asked = [send for send in alone.take() if send.peer == peer(20)]
    assert len(asked) == 10

    alone.heartbeats()
    alone.take()
    offer(alone, 20, 100)
    assert requests(alone) == {peer(20): ids(100)}


def test_the_number_of_requests_to_a_peer_in_a_heartbeat_is_limited() -> None:
    alone = Alone(30, GossipSettings(ihave_length_max=10))
    offer(alone, 20, *range(50))
    assert requests(alone) == {peer(20): ids(*range(10))}
    offer(alone, 20, *range(50, 60))
    assert requests(alone) == {}
    offer(alone, 21, *range(50, 60))
    assert requests(alone) == {peer(21): ids(*range(50, 60))}


def test_pending_requests_are_limited_and_expire() -> None:
    alone = Alone(30, GossipSettings(iwant_count_max=15))
    for number in (20, 21, 22):
        offer(alone, number, *range(10 * number, 10 * number + 10))
    held = {bound.what: bound.held for bound in alone.core.inspect().bounds}
    assert held["requested events"] == 15

    alone.now += SECOND
    alone.heartbeats(4)
    held = {bound.what: bound.held for bound in alone.core.inspect().bounds}
    assert held["requested events"] == 0
