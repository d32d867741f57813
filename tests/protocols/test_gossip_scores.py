"""Peers that harm or do not forward leave the mesh; honest peers stay."""

from collections.abc import Iterable

from smartpubsub.kademlia.settings import HOUR, MINUTE, SECOND
from smartpubsub.protocols.baselines.gossip_scores import Scores
from smartpubsub.protocols.baselines.gossip_settings import GossipSettings, ScoreSettings
from smartpubsub.protocols.baselines.gossipsub import GossipSub
from smartpubsub.protocols.baselines.messages import Control, Copy, Rpc
from smartpubsub.seam import Effect, Event, Send
from tests.protocols.alone import Alone, event, forged, peer
from tests.protocols.network import MakePubSub, Nodes, contact, publish_in_turn

A, B = peer(1), peer(2)


def carries_events(effect: Effect) -> bool:
    return (
        isinstance(effect, Send)
        and isinstance(effect.message, Rpc)
        and bool(effect.message.publish)
    )


class Freeloader(GossipSub):
    """Receives events and forwards none."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        return [e for e in super().handle(event, now) if not carries_events(e)]


def with_freeloaders(*numbers: int) -> MakePubSub:
    return lambda number, kademlia, signing, rng: (Freeloader if number in numbers else GossipSub)(
        GossipSettings(), kademlia, signing, rng
    )


def meshes(nodes: Nodes) -> dict[int, list[int]]:
    numbers = {contact(number).peer: number for number in nodes.numbers}
    return {n: [numbers[p] for p in gossipsub(nodes, n).mesh.members] for n in nodes.numbers}


def gossipsub(nodes: Nodes, number: int) -> GossipSub:
    core = nodes.core(number).pubsub
    assert isinstance(core, GossipSub)
    return core


def standing_of(nodes: Nodes, number: int, observers: Iterable[int]) -> list[float]:
    now = nodes.world.now
    return [gossipsub(nodes, n).scores.score(contact(number).peer, now) for n in observers]


# --- in a network ---


def test_a_member_that_never_forwards_is_pruned_and_honest_members_stay() -> None:
    nodes = Nodes(30, with_freeloaders(7), k=6)
    nodes.join_all()
    before = meshes(nodes)
    assert sum(7 in mesh for mesh in before.values()) >= 5

    publish_in_turn(nodes, 200)

    after = meshes(nodes)
    assert not any(7 in mesh for mesh in after.values())
    for number in nodes.numbers:
        if number != 7:
            assert len(after[number]) >= 5
            # No other member was pruned.
            assert set(before[number]) - {7} <= set(after[number])


def test_no_member_is_pruned_for_a_deficit_with_a_single_publisher() -> None:
    """Neighbours of the publisher are always first, and no event comes back to them."""
    nodes = Nodes(30, with_freeloaders(), k=4)
    nodes.join_all()
    before = meshes(nodes)
    for _ in range(120):
        nodes.publish(0, "surf")
        nodes.run(SECOND)

    after = meshes(nodes)
    assert all(set(before[number]) <= set(after[number]) for number in nodes.numbers)


def test_a_peer_that_sends_forgeries_is_pruned_at_once_and_then_ignored() -> None:
    nodes = Nodes(20, with_freeloaders(), k=6)
    nodes.join_all()
    victim, *_ = meshes(nodes)[7]
    nodes.subscribe(victim, "surf")

    nodes.send(7, victim, Rpc(publish=(Copy(forged(1), 1),)))
    nodes.run(2 * SECOND)
    assert 7 not in meshes(nodes)[victim]
    assert victim not in meshes(nodes)[7]
    assert gossipsub(nodes, victim).refused == 1

    for number in range(2, 5):
        nodes.send(7, victim, Rpc(publish=(Copy(forged(number), 1),)))
    nodes.send(7, victim, Rpc(publish=(Copy(event(9), 1),)))
    nodes.run(2 * SECOND)
    assert nodes.deliveries == []
    assert max(standing_of(nodes, 7, [victim])) < ScoreSettings().graylist_threshold

    # Others have seen nothing of it, and the event comes by way of them.
    others = [number for number in nodes.numbers if number not in (7, victim)]
    assert min(standing_of(nodes, 7, others)) >= 0
    nodes.publish(7, "surf")
    nodes.run(5 * SECOND)
    assert [number for number, _ in nodes.deliveries] == [victim]


# --- one node ---


def test_a_peer_below_the_thresholds_gets_less_gossip_and_fewer_events() -> None:
    alone = Alone(9)
    alone.heartbeats()
    outsider = next(number for number in range(1, 10) if number not in alone.mesh)
    alone.hear(outsider, forged(1), forged(2))  # Below what gossip needs.
    alone.take()

    alone.publish(event(1, publisher=0))
    assert peer(outsider) in {send.peer for send in alone.take()}
    alone.heartbeats()
    assert peer(outsider) not in {send.peer for send in alone.take()}
    alone.hear(outsider, control=Control(iwant=(event(1, publisher=0).id,)))
    assert alone.take() == []

    alone.hear(outsider, forged(3))  # Below what publishing needs.
    alone.publish(event(2, publisher=0))
    assert peer(outsider) not in {send.peer for send in alone.take()}


def test_time_in_the_mesh_and_first_deliveries_score_up_to_a_limit() -> None:
    scores = Scores(ScoreSettings())
    assert scores.score(A, 0) == 0

    scores.entered_mesh(A, 0)
    assert scores.score(A, 100 * SECOND) == 1
    assert scores.score(A, HOUR) == 5

    for _ in range(4):
        scores.first_delivery(B, A, HOUR)
    assert scores.score(B, HOUR) == 2
    for _ in range(100):
        scores.first_delivery(B, A, HOUR)
    assert scores.score(B, HOUR) == 10


def test_counters_decay_by_half_in_their_half_life() -> None:
    scores = Scores(ScoreSettings())
    scores.first_delivery(A, B, 0)
    scores.sent_invalid(B, 0)

    assert abs(scores.score(A, MINUTE) - 0.25) < 1e-9
    assert abs(scores.score(B, 10 * MINUTE) + 10 * 0.5**2) < 1e-9


def test_reading_a_score_does_not_change_its_decay() -> None:
    often, once = Scores(ScoreSettings()), Scores(ScoreSettings())
    for scores in (often, once):
        scores.sent_invalid(A, 0)
    for now in range(0, MINUTE, SECOND // 3):
        often.score(A, now)

    assert abs(often.score(A, MINUTE) - once.score(A, MINUTE)) < 1e-9


def crowded(publishers: int) -> Scores:
    """A and B are in the mesh; of 50 events B delivers some and A none."""
    scores = Scores(ScoreSettings())
    scores.entered_mesh(A, 0)
    scores.entered_mesh(B, 0)
    for number in range(50):
        scores.first_delivery(peer(3), peer(100 + number % publishers), 20 * SECOND)
        if number % 5 == 0:
            scores.later_delivery(B, 20 * SECOND)
    return scores


def test_a_member_that_delivers_nothing_has_a_deficit_after_the_activation_time() -> None:
    scores = crowded(publishers=10)

    assert scores.score(A, 29 * SECOND) > 0
    assert scores.score(A, 31 * SECOND) < -7
    assert scores.score(B, 31 * SECOND) > 0


def test_a_deficit_is_kept_when_the_peer_leaves() -> None:
    scores = crowded(publishers=10)
    scores.left_mesh(A, 31 * SECOND)
    scores.left_mesh(B, 31 * SECOND)

    assert scores.score(A, 31 * SECOND) == -8
    assert abs(scores.score(A, 91 * SECOND) + 4) < 0.1
    assert scores.score(A, 10 * MINUTE) == 0
    assert scores.score(B, 31 * SECOND) == 0


def test_there_is_no_deficit_with_few_publishers() -> None:
    assert crowded(publishers=7).score(A, 31 * SECOND) > 0


def test_peer_scores_are_bounded_and_expire() -> None:
    scores = Scores(ScoreSettings(record_count_max=10))
    scores.entered_mesh(A, 0)
    scores.sent_invalid(B, 0)
    for number in range(10, 40):
        scores.first_delivery(peer(number), A, number)

    assert len(scores) == 10
    assert scores.score(B, SECOND) < 0  # The harmless make room first.

    scores.forget(HOUR)
    assert len(scores) == 2
    scores.forget(3 * HOUR)
    assert len(scores) == 1
