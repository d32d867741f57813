"""Which peers enter a mesh, which stay, and which have to back off."""

from dataclasses import replace

import pytest

from smartpubsub.kademlia.settings import HOUR, MINUTE, SECOND
from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.baselines.messages import Control, Rpc
from smartpubsub.seam import Disconnected, Received
from tests.protocols.alone import Alone, event, peer

GRAFT = Control(graft=True)
PRUNE = Control(prune_s=60)


def pruned(alone: Alone) -> list[bytes]:
    """The peers that were pruned since effects were last taken."""
    return [peer for peer, control in alone.controls().items() if control.prune_s is not None]


def test_a_heartbeat_fills_a_mesh_up_to_d() -> None:
    alone = Alone(20)
    alone.heartbeats()

    assert len(alone.mesh) == 6
    assert alone.controls() == {peer(number): GRAFT for number in alone.mesh}

    alone.hear(alone.mesh[0], control=PRUNE)
    alone.heartbeats()
    assert len(alone.mesh) == 5  # Enough, if not what is meant.
    alone.hear(alone.mesh[0], control=PRUNE)
    alone.heartbeats()
    assert len(alone.mesh) == 6


def test_with_few_peers_all_are_in_the_mesh() -> None:
    alone = Alone(3)
    alone.heartbeats()

    assert alone.mesh == [1, 2, 3]


def test_grafts_are_accepted_until_the_mesh_is_full() -> None:
    alone = Alone(20)
    for number in range(1, 14):
        alone.hear(number, control=GRAFT)

    assert alone.mesh == list(range(1, 13))
    assert alone.controls() == {peer(13): PRUNE}


def test_a_stranger_that_grafts_becomes_a_peer() -> None:
    alone = Alone(0)
    alone.hear(30, control=GRAFT)

    assert alone.mesh == [30]
    assert peer(30) in alone.core.peers


def test_a_member_that_disconnects_or_unsubscribes_leaves_the_mesh() -> None:
    alone = Alone(2)
    alone.heartbeats()

    alone.handle(Disconnected(peer(1)))
    alone.handle(Received(peer(2), Rpc(subscribe=False)))

    assert alone.mesh == []


# --- backoff ---


def test_a_peer_that_pruned_is_not_grafted_during_its_backoff() -> None:
    alone = Alone(1)
    alone.heartbeats()
    alone.hear(1, control=Control(prune_s=90))

    alone.heartbeats(91)
    assert alone.mesh == []
    alone.heartbeats(2)
    assert alone.mesh == [1]


def test_a_backoff_is_limited() -> None:
    alone = Alone(1)
    alone.hear(1, control=Control(prune_s=10**9))
    alone.now += HOUR + MINUTE
    alone.heartbeats()

    assert alone.mesh == [1]


def full(settings: GossipSettings | None = None) -> Alone:
    """A mesh that is full, and peer 13, which has just been pruned."""
    alone = Alone(20, settings or GossipSettings())
    for number in range(1, 14):
        alone.hear(number, control=GRAFT)
    alone.handle(Disconnected(peer(1)))
    alone.take()
    return alone


def test_a_pruned_peer_may_return_after_the_backoff() -> None:
    alone = full()
    alone.now += MINUTE
    alone.hear(13, control=GRAFT)

    assert 13 in alone.mesh
    assert alone.controls() == {}


def test_a_graft_during_the_backoff_restarts_it_and_costs_points() -> None:
    alone = full()
    for _ in range(10):
        alone.now += 20 * SECOND
        alone.hear(13, control=GRAFT)

    assert 13 not in alone.mesh
    assert pruned(alone) == [peer(13)]
    assert alone.score(13) < 0

    alone.now += MINUTE
    alone.hear(13, control=GRAFT)
    assert 13 not in alone.mesh


def test_a_flood_of_grafts_costs_twice() -> None:
    slow, fast = full(), full()
    for _ in range(10):
        slow.now += 20 * SECOND
        fast.now += SECOND
        slow.hear(13, control=GRAFT)
        fast.hear(13, control=GRAFT)

    assert fast.score(13) < 3 * slow.score(13) < 0


def test_a_flood_of_grafts_gets_a_peer_graylisted() -> None:
    alone = full()
    for _ in range(20):
        alone.hear(13, control=GRAFT)
    alone.take()

    alone.hear(13, event(1))

    assert alone.take() == []
    assert event(1).id not in alone.core._seen


def test_backoffs_are_bounded_and_forgotten() -> None:
    alone = Alone(0, GossipSettings(peer_count_max=4))
    for number in range(1, 9):
        alone.handle(Received(peer(number), Rpc(subscribe=True)))
        alone.hear(number, control=PRUNE)
        alone.handle(Disconnected(peer(number)))

    assert list(alone.core.mesh.backoffs) == [peer(number) for number in range(5, 9)]
    alone.heartbeats(120)
    assert alone.core.mesh.backoffs == {}


# --- who stays ---

NARROW = GossipSettings(d=3, d_low=2, d_high=4, d_score=2, d_out=1)


def test_a_mesh_with_low_scores_grafts_better_peers_and_prunes_the_worst() -> None:
    alone = Alone(8, replace(NARROW, d=4))
    alone.heartbeats(59)
    members = alone.mesh
    assert len(members) == 4
    better = [number for number in range(1, 9) if number not in members][:2]
    for number in range(20):
        alone.hear(better[number % 2], event(number))
    alone.take()

    alone.heartbeats()

    assert set(better) <= set(alone.mesh)
    assert len(alone.mesh) == 4
    sent = alone.controls()
    assert {p for p, control in sent.items() if control.graft} == {peer(n) for n in better}
    gone = [peer(number) for number in members if number not in alone.mesh]
    assert len(gone) == 2
    assert [p for p, control in sent.items() if control.prune_s is not None] == gone


def test_a_mesh_with_good_scores_does_not_change() -> None:
    alone = Alone(8, replace(NARROW, d=4))
    alone.heartbeats(59)
    members = alone.mesh
    others = [number for number in range(1, 9) if number not in members]
    for number in range(40):
        alone.hear([*members, *others][number % 8], event(number))

    alone.heartbeats()

    assert alone.mesh == members


def test_some_members_are_outbound() -> None:
    alone = Alone(2, replace(NARROW, d_out=2, d_score=1))
    for number in range(10, 14):
        alone.hear(number, control=GRAFT)
    assert alone.mesh == [10, 11, 12, 13]

    alone.heartbeats(60)

    assert {1, 2} <= set(alone.mesh)
    assert len(alone.mesh) == 3


@pytest.mark.parametrize("count", [0, 1])
def test_a_node_with_hardly_any_peers_works(count: int) -> None:
    alone = Alone(count)
    alone.heartbeats(130)

    assert alone.mesh == list(range(1, count + 1))
