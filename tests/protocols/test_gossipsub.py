"""GossipSub in a network: a mesh forms and forwards events, and gossip repairs losses."""

import os
import subprocess
import sys
from dataclasses import replace
from statistics import fmean

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.baselines.gossipsub import GossipSub
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.traces.trace import Trace
from tests.protocols.network import Nodes, contact, flooding, gossiping, publish_in_turn
from tests.tidy.source import CHECKOUT

D, D_LOW, D_HIGH = 6, 5, 12


def gossipsubs(nodes: Nodes) -> list[GossipSub]:
    cores = [nodes.core(number).pubsub for number in nodes.numbers]
    assert all(isinstance(core, GossipSub) for core in cores)
    return cores  # type: ignore[return-value]


def mesh_degrees(nodes: Nodes) -> list[int]:
    return [len(core.mesh.members) for core in gossipsubs(nodes)]


def joined(settings: GossipSettings | None = None, count: int = 60, k: int = 6) -> Nodes:
    nodes = Nodes(count, gossiping(settings), k=k)
    nodes.join_all()
    for number in nodes.numbers:
        nodes.subscribe(number, "surf")
    return nodes


@pytest.fixture(scope="module")
def settled() -> Nodes:
    return joined()


def test_a_mesh_is_never_too_large_and_soon_large_enough() -> None:
    nodes = Nodes(60, gossiping(), k=6)
    largest: list[int] = []
    for second in range(180):
        nodes.world.at(second * SECOND + 1, lambda: largest.append(max(mesh_degrees(nodes))))
    nodes.join_all()

    assert len(largest) > 100
    assert max(largest) <= D_HIGH
    assert min(mesh_degrees(nodes)) >= D_LOW
    assert D - 1 <= fmean(mesh_degrees(nodes)) <= D + 2


def test_mesh_membership_is_mutual(settled: Nodes) -> None:
    cores = gossipsubs(settled)
    by_peer = {contact(number).peer: core for number, core in enumerate(cores)}
    for number, core in enumerate(cores):
        for member in core.mesh.members:
            assert contact(number).peer in by_peer[member].mesh.members


def test_every_node_gets_every_event_once_over_the_mesh(settled: Nodes) -> None:
    settled.received.clear()
    settled.deliveries.clear()
    ids = publish_in_turn(settled, 10)

    assert settled.delivered_share(ids) == 1
    assert len(settled.deliveries) == len(ids) * len(settled.numbers)
    # Each node sends an event to its mesh, the publisher to all its peers.
    peers_max = max(len(core.peers) for core in gossipsubs(settled))
    per_event = settled.received["event"] / len(ids)
    assert per_event <= sum(mesh_degrees(settled)) + peers_max


def test_flooding_sends_more_messages_and_delivers_no_more_events(settled: Nodes) -> None:
    flood = Nodes(60, flooding(), k=6)
    flood.join_all()
    for number in flood.numbers:
        flood.subscribe(number, "surf")
    settled.received.clear()
    flood.received.clear()
    ids, flooded = publish_in_turn(settled, 5), publish_in_turn(flood, 5)

    assert settled.delivered_share(ids) == flood.delivered_share(flooded) == 1
    assert settled.received["event"] < flood.received["event"] / 2


def test_own_events_go_to_all_peers(settled: Nodes) -> None:
    settled.deliveries.clear()
    settled.publish(0, "surf")
    settled.run(SECOND)

    peers = gossipsubs(settled)[0].peers
    direct = {contact(number).peer for number, event in settled.deliveries if event.hops == 1}
    assert direct == set(peers)


def test_without_flooding_own_events_go_to_the_mesh() -> None:
    nodes = joined(GossipSettings(flood_publish=False), count=30)
    nodes.publish(0, "surf")
    nodes.run(SECOND)

    members = gossipsubs(nodes)[0].mesh.members
    direct = {contact(number).peer for number, event in nodes.deliveries if event.hops == 1}
    assert direct == set(members)
    assert len(nodes.deliveries) == len(nodes.numbers)


def test_an_idle_network_sends_no_messages(settled: Nodes) -> None:
    settled.run(10 * SECOND)
    settled.received.clear()
    settled.run(20 * SECOND)

    assert not settled.received["ihave"]
    assert not settled.received["iwant"]


# --- loss ---

THIN = GossipSettings(d=3, d_low=2, d_high=4, d_score=1, d_out=1, flood_publish=False)


def share_at_loss(settings: GossipSettings) -> float:
    nodes = joined(settings, count=40)
    nodes.lose(0.2)
    return nodes.delivered_share(publish_in_turn(nodes, 50))


def test_gossip_repairs_what_a_mesh_alone_loses() -> None:
    mesh_alone = share_at_loss(replace(THIN, d_lazy=0, gossip_factor=0.0))
    with_gossip = share_at_loss(THIN)

    assert mesh_alone < 0.98
    assert with_gossip >= 0.999


def test_nearly_everything_arrives_at_a_loss_of_a_fifth() -> None:
    assert share_at_loss(GossipSettings()) >= 0.999


def test_a_network_forms_at_a_loss_of_a_fifth() -> None:
    nodes = Nodes(40, gossiping(), k=6, options=NetworkOptions(loss=0.2))
    nodes.join_all()
    for number in nodes.numbers:
        nodes.subscribe(number, "surf")

    assert max(mesh_degrees(nodes)) <= D_HIGH
    assert nodes.delivered_share(publish_in_turn(nodes, 30)) >= 0.99


# --- crashes ---


def test_events_are_delivered_while_a_third_is_down_and_crashed_peers_are_pruned() -> None:
    nodes = joined()
    dead = range(0, 60, 3)
    for number in dead:
        nodes.world.crash(nodes.host(number))
    alive = [number for number in nodes.numbers if number not in dead]

    first = nodes.publish(1, "surf")
    nodes.run(10 * SECOND)
    assert nodes.receivers(first) == alive

    for _ in range(4):
        for number in alive:
            nodes.publish(number, "surf")
            nodes.run(SECOND)
    gone = {contact(number).peer for number in dead}
    for number in alive:
        members = gossipsubs(nodes)[number].mesh.members
        assert not gone & set(members)
        assert len(members) >= D_LOW


def test_bounds_hold_under_load() -> None:
    nodes = joined(GossipSettings(history_count_max=20, seen_count_max=100), count=30)
    for _ in range(10):
        for number in nodes.numbers:
            nodes.publish(number, "surf")
        nodes.run(SECOND)
        for core in gossipsubs(nodes):
            assert [b for b in core.inspect().bounds if b.held > b.held_max] == []
    held = {b.what: b.held for b in gossipsubs(nodes)[0].inspect().bounds}
    assert held["cached events"] == 20
    assert held["seen events"] == 100


# --- the same again ---


def digest_of_a_lossy_run() -> str:
    trace = Trace()
    options = NetworkOptions(loss=0.4, jitter_us=5_000)
    nodes = Nodes(25, gossiping(), k=4, options=options, trace=trace)
    nodes.join_all()
    nodes.subscribe(3, "surf")
    nodes.world.crash(nodes.host(5))
    publish_in_turn(nodes, 40)
    nodes.world.restart(nodes.host(5))
    nodes.run(2 * MINUTE)
    assert nodes.received["iwant"]
    assert nodes.received["prune"]
    return trace.digest()


def test_the_same_seed_gives_the_same_run_whatever_the_hash_seed() -> None:
    program = "from tests.protocols import test_gossipsub as t; print(t.digest_of_a_lossy_run())"

    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }

    assert digests == {digest_of_a_lossy_run()}
