"""The scenarios of the experiments: every event arrives once, fast, in at most two hops."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from smartpubsub.protocols.fastdelivery.messages import GroupNotify, Packet, Relay
from smartpubsub.protocols.fastdelivery.protocol import FastDelivery
from smartpubsub.protocols.publication import EventId
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.judging import result
from smartpubsub.sim.judging.spread import spread
from smartpubsub.sim.kernel.places import region_of
from smartpubsub.sim.kernel.world import Host


def experiment_of(options: SimOptions) -> Experiment:
    options.check()
    workload = options.load(["fastdelivery"])
    return options.experiment("fastdelivery", "redirect-reliable", workload)


def document_of(experiment: Experiment) -> dict[str, Any]:
    return result.run(experiment, "any").document()


def assert_perfect(document: dict[str, Any]) -> None:
    assert document["violations"] == []
    assert document["coverage_injected"] == document["coverage_published"] == 1.0
    assert document["expected"] > 0
    for what in ("missing", "unexpected", "app_duplicates"):
        assert document[what] == 0, what
    assert document["published"] == document["injected"]
    assert document["hops"]["max"] <= 2


@pytest.mark.parametrize("seed", [1, 77])
def test_normal_is_fast(seed: int) -> None:
    document = document_of(experiment_of(SimOptions(seed=seed)))
    assert_perfect(document)
    assert document["wire_duplicates"] == document["order_violations"] == 0
    latency, floor = document["latency_ms"]["mean"], document["path_floor_ms"]["mean"]
    assert latency <= 1.3 * floor
    assert latency < 30


@pytest.mark.parametrize(
    "options",
    [
        SimOptions(scenario="event-burst", seed=5),
        SimOptions(scenario="sub-burst", nodes=40, seed=6),
        SimOptions(scenario="replication", nodes=40, seed=7),
        SimOptions(scenario="fault", seed=8),
        SimOptions(scenario="fault", seed=9, crash="mid", events=40),
        SimOptions(scenario="fault", seed=10, crash="mid", faults=12, events=12, backups=12),
        SimOptions(scenario="power-law", nodes=30, seed=11),
        SimOptions(nodes=60, publishers=1, events=60, seed=12),
        SimOptions(nodes=30, publishers=2, events=60, seed=13, jitter_ms=40),
        SimOptions(nodes=30, events=20, seed=14, loss=0.05),
        # Links are full from the start: retransmissions before answers can come would keep them so.
        SimOptions(scenario="event-burst", nodes=25, bandwidth_bytes=3_000, seed=1),
    ],
    ids=lambda options: options.command("fastdelivery", "redirect-reliable").split("y ")[-1],
)
def test_no_event_is_missing_or_delivered_twice(options: SimOptions) -> None:
    assert_perfect(document_of(experiment_of(options)))


def test_a_publisher_sends_only_to_its_helpers_and_directly_served_members() -> None:
    experiment = experiment_of(SimOptions(publishers=1, events=14, seed=3))
    sent: Counter[EventId] = Counter()
    transmit = experiment.world._transmit

    def noting(host: Host, peer: bytes, message: object, event: object) -> None:
        if isinstance(message, Packet) and isinstance(message.part, GroupNotify | Relay):
            id = message.part.event.id
            sent[id] += host.peer == id.publisher
        transmit(host, peer, message, event)  # type: ignore[arg-type]

    experiment.world._transmit = noting  # type: ignore[method-assign]
    document = document_of(experiment)
    assert_perfect(document)
    assert len(sent) == 14
    assert document["publisher_sends_per_event"] == spread(list(sent.values()), "mean", "max")
    pubsub = experiment.core(59).pubsub
    assert isinstance(pubsub, FastDelivery)
    for id, count in sent.items():
        predicate = experiment.journal.events[id].predicate
        groups = pubsub.groups.values()
        group = next(
            g
            for g in groups
            if g.predicate.matches(predicate) and len(g.predicate) == len(predicate)
        )
        assert count <= group.book.fan_out


def test_with_regions_a_delivery_crosses_once() -> None:
    options = SimOptions(regions=4, seed=4)
    experiment = experiment_of(options)
    crossed: Counter[tuple[EventId, bool]] = Counter()
    on_receive = experiment.world.on_receive
    assert on_receive is not None

    def noting(host: Host, peer: bytes, message: object) -> None:
        if isinstance(message, Packet) and isinstance(message.part, GroupNotify | Relay):
            id = message.part.event.id
            is_far = region_of(peer, 4) != region_of(host.peer, 4)
            crossed[id, peer == id.publisher] += is_far
        on_receive(host, peer, message)

    experiment.world.on_receive = noting
    document = document_of(experiment)
    assert_perfect(document)
    # Each region gets as many copies as it has helpers and members that are served directly.
    assert [count for (_, is_own), count in crossed.items() if count and not is_own] == []
    own = [crossed[id, True] for id in experiment.journal.events]
    assert max(own) > 0
    assert document["region_crossings_per_event"] == spread(own, "mean", "max")
    assert document["latency_ms"]["max"] < 100  # Across once, and perhaps a hop inside.
    assert document["latency_ms"]["mean"] <= 1.3 * document["path_floor_ms"]["mean"]
    regions = {region_of(host.peer, 4) for host in experiment.world.hosts}
    assert regions == {0, 1, 2, 3}


def test_any_workload_file_is_covered(tmp_path: Path) -> None:
    file = tmp_path / "any.jsonl"
    file.write_text(
        '{"node": "ann", "subscribe": "surf"}\n'
        '{"node": "bob", "subscribe": "price[10,20]"}\n'
        '{"node": "cat", "subscribe": "surf/price[,15]"}\n'
        '{"node": "ann", "subscribe": "price[0,100]/wind"}\n'
        '{"node": "dan", "publish": "surf/price=12", "payload": "a"}\n'
        '{"node": "dan", "publish": "price[11,12]/wind=3", "payload": "b"}\n'
        '{"node": "ann", "publish": "surf", "payload": "c"}\n'
        '{"node": "bob", "publish": "surf/price=500", "payload": "d"}\n'
        '{"node": "eve", "subscribe": "wind", "at_ms": 5000}\n'
        '{"node": "dan", "publish": "price[11,12]/wind=3", "payload": "e", "at_ms": 9000}\n'
    )
    document = document_of(experiment_of(SimOptions(workload=file, nodes=9)))
    assert_perfect(document)
    assert (document["injected"], document["expected"]) == (5, 10)
