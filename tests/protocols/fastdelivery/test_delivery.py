"""Events of a publisher are delivered in order on any number of paths, without long waits."""

from dataclasses import replace
from typing import Any

import pytest

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.fastdelivery.book import MemberState
from smartpubsub.protocols.fastdelivery.messages import Expect, GroupNotify, Packet, Relay
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Delivery
from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.judging import result
from smartpubsub.sim.kernel.world import Host
from tests.protocols.fastdelivery.nodes import OWNER, FastNodes

HERE = FastSettings(region="here", capacity=0)
CAPACITIES = [0, 20, *[0] * 9]
HELPER = 1


def two_paths(settings: FastSettings = HERE) -> tuple[FastNodes, int]:
    """Nodes, and a member that a helper serves in one group and the owner in the other."""
    nodes = FastNodes(11, settings, capacities=CAPACITIES)
    by_helper, straight = nodes.create("surf"), nodes.create("kite")
    nodes.subscribe_all(range(1, 11), "surf")
    nodes.run(2)
    member = nodes.at(by_helper, MemberState.DELEGATED)[0]
    nodes.subscribe(member, "kite")
    assert nodes.at(straight, MemberState.DIRECT) == [member]
    return nodes, member


def got_by(nodes: FastNodes, number: int) -> list[EventId]:
    return [told.event.id for told in nodes.items(Delivery, number)]


def count_sent(nodes: FastNodes, kind: type) -> list[object]:
    """Record all messages of a kind that are sent from now on."""
    noted: list[object] = []
    transmit = nodes.world._transmit

    def noting(host: Host, peer: bytes, message: object, event: object) -> None:
        if isinstance(message, Packet) and isinstance(message.part, kind):
            noted.append(message.part)
        transmit(host, peer, message, event)  # type: ignore[arg-type]

    nodes.world._transmit = noting  # type: ignore[method-assign]
    return noted


def test_an_event_on_the_short_path_waits_for_its_predecessor_on_the_long_path() -> None:
    nodes, member = two_paths()
    asked, relayed = count_sent(nodes, Expect), count_sent(nodes, Relay)
    events = [nodes.publish(text) for text in ("surf", "kite", "surf", "kite", "kite", "surf")]
    nodes.run(1)
    assert got_by(nodes, member) == events
    assert asked == []  # A predecessor that comes soon is not asked for.
    assert len(relayed) == 3  # One for each event.


def test_events_on_a_single_path_name_no_predecessor() -> None:
    nodes, _ = two_paths()
    notified = count_sent(nodes, GroupNotify)
    for _ in range(5):
        nodes.publish("surf")
    nodes.run(1)
    assert {part.prior for part in notified if isinstance(part, GroupNotify)} == {0}


def test_an_event_waits_only_briefly_for_a_predecessor_at_a_crashed_helper() -> None:
    nodes, member = two_paths()
    nodes.crash(HELPER)
    first, second = nodes.publish("surf"), nodes.publish("kite")
    began = nodes.world.now
    nodes.run_until(lambda: second in got_by(nodes, member))
    assert HERE.hold_us <= nodes.world.now - began <= HERE.hold_us + SECOND // 4
    nodes.run(10)
    assert sorted(got_by(nodes, member)) == [first, second]


def test_an_event_does_not_wait_for_a_crashed_owner() -> None:
    nodes, member = two_paths()
    nodes.crash(HELPER)
    nodes.publish("surf")
    second = nodes.publish("kite")
    nodes.run(0.5)
    nodes.crash(OWNER)
    nodes.run(10)
    assert got_by(nodes, member) == [second]


def test_beyond_the_limit_events_are_delivered_out_of_order_and_counted() -> None:
    nodes, member = two_paths(replace(HERE, held_count_max=1))
    events = [nodes.publish(text) for text in ("surf", "kite", "kite")]
    nodes.run(1)
    assert got_by(nodes, member) == [events[2], events[0], events[1]]
    assert nodes.fast(member).tally().refused["held events"] == 1


@pytest.mark.parametrize(
    ("seed", "bandwidth_bytes", "latency_ms_max"), [(12, 1 << 20, 250), (101, 1 << 15, 10_000)]
)
def test_a_burst_arrives_once_and_in_order_even_with_slow_helpers(
    seed: int, bandwidth_bytes: int, latency_ms_max: int
) -> None:
    options = SimOptions(
        scenario="event-burst",
        publishers=1,
        events=60,
        seed=seed,
        bandwidth_bytes=bandwidth_bytes,
    )
    options.check()
    workload = options.load(["fastdelivery"])
    experiment = options.experiment("fastdelivery", "redirect-reliable", workload)
    document: dict[str, Any] = result.run(experiment, "any").document()
    assert (document["violations"], document["missing"], document["app_duplicates"]) == ([], 0, 0)
    assert document["order_violations"] == 0
    assert document["wire_duplicates"] <= 0.02 * document["delivered"]
    assert document["latency_ms"]["max"] < latency_ms_max
