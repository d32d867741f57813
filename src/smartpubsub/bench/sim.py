"""`bench sim`: the simulator beside SimPy, and beside a bare heap as the lower bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from smartpubsub.bench import machine
from smartpubsub.bench.report import Ratio, Report
from smartpubsub.bench.sim_large import cost_of
from smartpubsub.bench.sim_peers import SimpyRelay, bare_heap
from smartpubsub.bench.timing import best_seconds
from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Message, wire_bytes
from smartpubsub.kademlia.queries import Joined
from smartpubsub.kademlia.settings import SECOND, Settings
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.baselines import messages as rpc
from smartpubsub.protocols.baselines.floodsub import Floodsub, FloodsubSettings
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.pubsub import Delivery
from smartpubsub.seam import Effect, Event, Received, Send
from smartpubsub.sim.kernel.collector import collector_off
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.population import Population
from smartpubsub.sim.kernel.signing import StandInSigning
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.sim.kernel.world import Host, World
from smartpubsub.sim.traces.trace import Trace

Progress = Callable[[str], None]

RELAY_NODES = 100
RELAY_TOKENS = 1_000
RELAY_US = SECOND
RELAY_TRIES = 6
STACK_NODES = 100
STACK_EVENTS = 200
EVENT_EVERY_US = 100_000
EVENT = Predicate.parse("surf")
SETTLE_US = 5 * SECOND
HEAP_THOUSANDS = 300
LARGE = {"1k": 1_000, "10k": 10_000}
LARGE_LOOKUPS = 1_000
MEMORY_GB_MAX = 4


def run(seed: int, *, full: bool, progress: Progress) -> Report:
    """Measure everything; `full` adds ten thousand nodes."""
    report = Report(machine.describe())
    progress("relaying")
    _measure_relays(report)
    progress("Kademlia and Floodsub")
    _measure_stack(report, seed)
    if full:
        _measure_large(report, seed, progress)
    return report


# --- the kernel alone ---


class Token(NamedTuple):
    """A message that circulates."""

    size: int


@dataclass
class Relay:
    """A core that forwards every message to its neighbour."""

    neighbour: bytes

    def handle(self, event: Event, now: int) -> list[Effect]:  # noqa: ARG002
        """Return the effects of an event."""
        return [Send(self.neighbour, event.message)] if isinstance(event, Received) else []


def relays(nodes: int, options: NetworkOptions) -> World:
    """A ring of nodes that relay."""
    world = World(options, 0, {Token: lambda token: token.size})
    for number in range(nodes):
        neighbour = b"%d" % ((number + 1) % nodes)
        world.add(b"%d" % number, lambda _, neighbour=neighbour: Relay(neighbour))  # type: ignore[misc]
    return world


def _measure_relays(report: Report) -> None:
    options = NetworkOptions()
    world, peer = relays(RELAY_NODES, options), SimpyRelay(RELAY_NODES, options)
    for number in range(RELAY_TOKENS):
        sender, size = number % RELAY_NODES, 100 + number
        host = world.hosts[sender]
        core = host.core
        assert isinstance(core, Relay)
        world.carry_out(host, [Send(core.neighbour, Token(size))])
        peer.send(sender, size)
    kernel = simpy = 0.0
    for _ in range(RELAY_TRIES):  # In turn, so that other load on the machine affects both alike.
        kernel = max(kernel, rate(lambda: world.run(world.now + RELAY_US), lambda: received(world)))
        simpy = max(simpy, rate(lambda: peer.run_for(RELAY_US), lambda: peer.relayed))
    report.add("kernel", kernel, "messages/s")
    report.add("simpy", simpy, "messages/s")
    report.ratios.append(Ratio("kernel/simpy", kernel / simpy, at_least=2))


def received(world: World) -> int:
    """The number of messages that have arrived."""
    return sum(host.received_count for host in world.hosts)


def rate(work: Callable[[], object], done: Callable[[], int]) -> float:
    """Units of work per second."""
    with collector_off():
        before, start = done(), time.perf_counter()
        work()
        return (done() - before) / (time.perf_counter() - start)


# --- protocols ---


class Flood:
    """Nodes with Kademlia and Floodsub that all subscribe to every event."""

    def __init__(self, nodes: int, seed: int) -> None:
        self.trace = Trace()
        self.delivered = 0
        self.world = World(
            NetworkOptions(),
            seed,
            {Message: wire_bytes, rpc.Rpc: rpc.wire_bytes},
            trace=self.trace,
            on_deliver=self._on_deliver,
        )
        self._population = Population(self.world, seed)
        for _ in range(nodes):
            self._population.add(self._make_core)

    def _make_core(self, own: Contact, incarnation: int) -> NodeCore:
        rng = stream(self._population.seed, "bench", own.peer.hex(), incarnation)
        kademlia = Kademlia(own, Settings(), rng)
        signing = StandInSigning(own.peer)
        return NodeCore(kademlia, Floodsub(FloodsubSettings(), kademlia, signing), signing)

    def core(self, number: int) -> NodeCore:
        """A node's core."""
        core = self.world.hosts[number].core
        assert isinstance(core, NodeCore)
        return core

    def join(self) -> None:
        """Have all nodes join and find their peers, and subscribe."""
        self._population.join_all()
        for host in self.world.hosts:
            _, effects = self.core(host.number).subscribe(EVENT, self.world.now)
            self.world.carry_out(host, effects)
        self.world.run(self.world.now + SETTLE_US)

    def publish(self, count: int) -> int:
        """Have nodes publish in turn; return the maximum of pending events."""
        pending = 0
        for number in range(count):
            host = self.world.hosts[number % len(self.world.hosts)]
            _, effects = self.core(host.number).publish(EVENT, b"", self.world.now)
            self.world.carry_out(host, effects)
            for _ in range(10):
                self.world.run(self.world.now + EVENT_EVERY_US // 10)
                pending = max(pending, self.world.pending_count)
        self.world.run(self.world.now + SETTLE_US)
        return pending

    def _on_deliver(self, host: Host, item: object) -> None:
        if isinstance(item, Joined):
            self._population.joined[host.number] = None
        elif isinstance(item, Delivery):
            self.delivered += 1


def _measure_stack(report: Report, seed: int) -> None:
    with collector_off():
        flood = Flood(STACK_NODES, seed)
        start = time.perf_counter()
        flood.join()
        joined_at, joined = time.perf_counter(), received(flood.world)
        pending = flood.publish(STACK_EVENTS)
        flood.trace.digest()
        end, messages = time.perf_counter(), received(flood.world)
    stack = messages / (end - start)
    report.add("kademlia cost per message", (joined_at - start) / joined * 1e6, "us")
    flooded = messages - joined
    report.add("floodsub cost per message", (end - joined_at) / flooded * 1e6, "us")
    report.add("stack", stack, "messages/s")
    report.add("stack pending", pending, "entries")
    rounds = bare_heap(pending, seed)
    heap = HEAP_THOUSANDS * 1_000 / best_seconds(lambda: rounds(HEAP_THOUSANDS))
    report.add("bare heap", heap, "entries/s")
    report.ratios.append(Ratio("stack/bare heap", stack / heap, at_least=0.03))


# --- many nodes ---


def _measure_large(report: Report, seed: int, progress: Progress) -> None:
    costs = {}
    for label, nodes in LARGE.items():
        progress(f"{nodes:,} nodes")
        cost = costs[label] = cost_of(nodes, LARGE_LOOKUPS, seed)
        report.add(f"{label} messages", cost.messages, "messages")
        report.add(f"{label} cost per message", cost.us_per_message, "us")
        report.add(f"{label} peak memory", cost.peak_bytes / 1e9, "GB")
        report.add(f"{label} memory per node", cost.peak_bytes / nodes, "bytes")
    quotient = costs["10k"].us_per_message / costs["1k"].us_per_message
    report.ratios.append(Ratio("10k/1k cost per message", quotient, at_most=2))
    share = report.value("10k peak memory") / MEMORY_GB_MAX
    report.ratios.append(Ratio(f"10k memory/{MEMORY_GB_MAX} GB", share, at_most=1))
