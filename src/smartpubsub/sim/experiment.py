"""One experiment: nodes that run a protocol, a workload, faults, and a journal of what came of it.

The nodes join, the overlay settles, then the workload's phases follow each other. The run is over
when everything that is owed has come and some time has passed in which too much could have come, or
when waiting longer is of no use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Message, wire_bytes
from smartpubsub.kademlia.queries import Joined
from smartpubsub.kademlia.settings import MINUTE, SECOND, Settings
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import (
    Delivery,
    Inspection,
    Published,
    Refused,
    Subscribed,
    Unsubscribed,
)
from smartpubsub.sim.crowd import Crowd, settled_tables
from smartpubsub.sim.faults import Fault, Partition
from smartpubsub.sim.journal import EventRecord, Journal, Split, SubscriptionRecord
from smartpubsub.sim.network import NetworkOptions
from smartpubsub.sim.oracle import Oracle
from smartpubsub.sim.signing import StandInSigning
from smartpubsub.sim.stacks import STACKS, StackOptions
from smartpubsub.sim.streams import stream
from smartpubsub.sim.trace import Row, Trace
from smartpubsub.sim.world import Host, World
from smartpubsub.workloads.actions import (
    Action,
    CrashNode,
    Publish,
    RestartNode,
    Subscribe,
    Unsubscribe,
    Workload,
)

JOINING_NODES_MAX = 300
"""Larger overlays are laid out as they would have settled, which saves minutes."""
SETTLE_US = 2 * SECOND
PHASE_GAP_US = 100_000
"""How much later the next phase begins when everything asked for is acknowledged."""
PHASE_US_MAX = 2 * MINUTE
"""How long a phase is waited for after its last action, if something is never acknowledged."""
QUIET_US_MAX = 3 * MINUTE
"""How long what is missing is waited for after the last phase."""
LINGER_US = 3 * SECOND
"""How long to go on when everything has come, to see whether something comes twice."""
SLICE_US = 100_000


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What an experiment is made of, apart from its workload and its faults."""

    protocol: str = "floodsub"
    stack: StackOptions = field(default_factory=StackOptions)
    nodes: int = 60
    seed: int = 1
    network: NetworkOptions = field(default_factory=NetworkOptions)
    kademlia: Settings = field(default_factory=Settings)


FaultPlan: TypeAlias = Callable[[int], Iterable[Fault]]
"""When the workload begins, to what goes wrong from then on."""


def nothing_fails(_: int) -> Iterable[Fault]:
    """The plan of a world in which nothing goes wrong."""
    return ()


class Traffic(NamedTuple):
    """What a node has sent and received."""

    sent: int
    received: int
    sent_bytes: int

    @classmethod
    def of(cls, host: Host) -> Traffic:
        """All of a node's traffic so far."""
        return cls(host.sent_count, host.received_count, host.sent_bytes)

    def since(self, before: Traffic) -> Traffic:
        """What of it came after some earlier time."""
        return Traffic(*(now - then for now, then in zip(self, before, strict=True)))


class Progress:
    """What a long run tells while it goes on; this one tells nobody."""

    def say(self, stage: str) -> None:
        """A new stage begins."""

    def tick(self, world: World) -> None:
        """The run goes on."""


class Experiment:
    """A run, from the first node's start to the last event's delivery."""

    def __init__(
        self,
        options: RunOptions,
        workload: Workload,
        faults: FaultPlan = nothing_fails,
        *,
        trace: Trace | None = None,
        progress: Progress | None = None,
    ) -> None:
        if len(workload.names) > options.nodes:
            raise SmartPubSubError(
                f"the workload has {len(workload.names)} nodes, and there are {options.nodes};"
                f" give --nodes {len(workload.names)} or more"
            )
        self.options = options
        self.workload = workload
        self.stack = STACKS[options.protocol]
        self.trace = trace or Trace()
        self.journal = Journal()
        self.oracle = Oracle()
        self.inspections: list[tuple[int, int, Inspection]] = []
        self.faults: list[Fault] = []
        self.copies: dict[tuple[int, EventId], int] = {}
        """How many copies of an event have come down to a node."""
        self.was_interrupted = False
        self.began_us = 0
        self.traffic_before: list[Traffic] = []
        self._fault_plan = faults
        self._progress = progress or Progress()
        self._owed: dict[EventId, dict[int, None]] = {}
        self._open_calls: dict[tuple[int, str, object], None] = {}
        self._postponed: dict[int, None] = {}
        self.world = World(
            options.network,
            options.seed,
            {Message: wire_bytes, **self.stack.sizes},
            trace=self.trace,
            on_deliver=self._on_deliver,
            on_receive=self._on_receive,
        )
        self.world.on_fault = self._on_fault
        self._crowd = Crowd(self.world, options.seed)
        for _ in range(options.nodes):
            self._crowd.add(self._make_core)

    def _make_core(self, own: Contact, incarnation: int) -> NodeCore:
        seed, peer = self.options.seed, own.peer.hex()
        rng = stream(seed, "kademlia", peer, incarnation)
        kademlia = Kademlia(own, self.options.kademlia, rng)
        signing = StandInSigning(own.peer)
        rng = stream(seed, self.options.protocol, peer, incarnation)
        pubsub = self.stack.make(kademlia, signing, rng, self.options.stack)
        return NodeCore(kademlia, pubsub, signing)

    def core(self, number: int) -> NodeCore:
        """A node's core."""
        core = self.world.hosts[number].core
        assert isinstance(core, NodeCore)
        return core

    # --- the course of a run ---

    def run(self) -> None:
        """Let everything happen; Ctrl-C ends it early."""
        try:
            self._assemble()
            for fault in self._fault_plan(self.began_us):
                self._plan(fault)
            for number, phase in enumerate(self.workload.phases, 1):
                if number > 1:
                    self._run(self.world.now + PHASE_GAP_US)
                self._progress.say(f"phase {number} of {len(self.workload.phases)}")
                self._run_phase(phase)
            self._run_until_quiet()
        except KeyboardInterrupt:
            self.was_interrupted = True
        self.inspect()
        self.journal.ended_us = self.world.now

    def inspect(self) -> None:
        """Look into all nodes that are up."""
        for host in self.world.hosts:
            if host.is_up:
                inspection = self.core(host.number).pubsub.inspect()
                self.inspections.append((self.world.now, host.number, inspection))

    def _assemble(self) -> None:
        self._progress.say("joining")
        if self.options.nodes <= JOINING_NODES_MAX:
            self._crowd.join_all(lambda _: self._progress.tick(self.world))
        else:
            self._lay_out()
        self._run(self.world.now + SETTLE_US)
        self.began_us = self.world.now
        self.traffic_before = [Traffic.of(host) for host in self.world.hosts]

    def traffic(self) -> list[Traffic]:
        """What each node has sent and received since the overlay was there."""
        return [
            Traffic.of(host).since(before)
            for host, before in zip(self.world.hosts, self.traffic_before, strict=False)
        ]

    def _lay_out(self) -> None:
        hosts = self.world.hosts
        contacts = [self._crowd.contact(host.number) for host in hosts]
        rng = stream(self.options.seed, "layout")
        tables = settled_tables(contacts, self.options.kademlia.k, rng)
        for host, known in zip(hosts, tables, strict=True):
            effects = self.core(host.number).settle(known, host.clock(self.world.now))
            self.world.carry_out(host, effects)

    def _plan(self, fault: Fault) -> None:
        fault.plan(self.world)
        self.faults.append(fault)
        if isinstance(fault, Partition):
            split = Split(frozenset(fault.group), fault.at_us, fault.until_us)
            self.journal.splits.append(split)

    def _run_phase(self, phase: Iterable[Action]) -> None:
        start = end = self.world.now
        for action in phase:
            end = start + action.at_us
            self.world.at(end, partial(self._act, action))
        self._run(end)
        self._run_while(self._is_something_open, end + PHASE_US_MAX)

    def _is_something_open(self) -> bool:
        return bool(self._open_calls or self._postponed)

    def _run_until_quiet(self) -> None:
        self._progress.say("waiting for the network to be quiet")
        deadline = self.world.now + QUIET_US_MAX
        while True:
            self._run_while(self._is_something_owed, deadline)
            self._run(self.world.now + LINGER_US)
            # Meanwhile somebody who is owed something may have come back.
            if not self._is_something_owed() or self.world.now >= deadline:
                return

    def _run(self, until: int) -> None:
        self.world.run(self.world.now)  # What is to happen now happens also if time stands still.
        while self.world.now < until:
            self.world.run(min(until, self.world.now + SLICE_US))
            self._progress.tick(self.world)

    def _run_while(self, condition: Callable[[], bool], until: int) -> None:
        while condition() and self.world.now < until:
            self._run(self.world.now + SLICE_US)

    def _is_something_owed(self) -> bool:
        hosts = self.world.hosts
        return any(hosts[node].is_up for nodes in self._owed.values() for node in nodes)

    # --- what applications do ---

    def _act(self, action: Action) -> None:
        host = self.world.hosts[action.node]
        is_paused = host.is_up and host.paused_until > self.world.now
        if is_paused and not isinstance(action, CrashNode):  # Its application is paused with it.
            self._postponed[id(action)] = None
            self.world.at(host.paused_until, partial(self._act, action))
            return
        self._postponed.pop(id(action), None)
        match action:
            case RestartNode():
                if not host.is_up:
                    self.world.restart(host)
            case _ if not host.is_up:
                pass  # Nobody is there who could ask for anything, or crash.
            case CrashNode():
                self.world.crash(host)
            case Subscribe(_, _, predicate):
                self._subscribe(host, predicate)
            case Unsubscribe(_, _, predicate):
                self._unsubscribe(host, predicate)
            case Publish(_, _, predicate, payload):
                self._publish(host, predicate, payload)

    def _subscribe(self, host: Host, predicate: Predicate) -> None:
        now = self.world.now
        text = str(predicate)
        self.trace.add_row(Row(now, "subscribe", host.number, text=text))
        number, effects = self.core(host.number).subscribe(predicate, host.clock(now))
        record = SubscriptionRecord(host.number, number, predicate, now)
        self.journal.subscriptions[host.number, number] = record
        self.oracle.add(record)
        self._open_calls[host.number, "subscribe", number] = None
        self.world.carry_out(host, effects)

    def _unsubscribe(self, host: Host, predicate: Predicate) -> None:
        now = self.world.now
        core = self.core(host.number)
        held = (n for n, held in core.subscriptions.items() if held.predicate == predicate)
        number = next(held, None)
        if number is None:
            return  # The node was down when it should have subscribed.
        self.trace.add_row(Row(now, "unsubscribe", host.number, text=str(predicate)))
        self.journal.unsubscribe(host.number, number, now)
        self._open_calls.pop((host.number, "subscribe", number), None)
        self._open_calls[host.number, "unsubscribe", number] = None
        self.world.carry_out(host, core.unsubscribe(number, host.clock(now)))

    def _publish(self, host: Host, predicate: Predicate, payload: bytes) -> None:
        now = self.world.now
        id, effects = self.core(host.number).publish(predicate, payload, host.clock(now))
        row = Row(now, "publish", host.number, size=len(payload), event=str(id))
        self.trace.add_row(row._replace(text=str(predicate)))
        self.journal.events[id] = EventRecord(id, host.number, predicate, now)
        wanting = self.oracle.interested(predicate)
        owed = {record.node: None for record in wanting if record.is_in_force(now)}
        if owed:
            self._owed[id] = owed
        self._open_calls[host.number, "publish", id] = None
        self.world.carry_out(host, effects)

    # --- what applications are told ---

    def _on_deliver(self, host: Host, item: object) -> None:
        now, node = self.world.now, host.number
        match item:
            case Delivery(event):
                self.journal.delivered(node, host.incarnation, item, now)
                self._settle(event.id, node)
            case Subscribed(subscription):
                self._open_calls.pop((node, "subscribe", subscription.number), None)
                self.journal.subscribed(node, subscription.number, now)
            case Unsubscribed(subscription):
                self._open_calls.pop((node, "unsubscribe", subscription.number), None)
                self.journal.unsubscribed(node, subscription.number, now)
            case Published(id):
                self._open_calls.pop((node, "publish", id), None)
                self.journal.events[id].acknowledged_us = now
            case Refused(id, reason):
                self._open_calls.pop((node, "publish", id), None)
                self._owed.pop(id, None)
                self.journal.events[id].refused = reason
            case Joined():
                self._crowd.joined[node] = None

    def _settle(self, id: EventId, node: int) -> None:
        owed = self._owed.get(id)
        if owed is not None:
            owed.pop(node, None)
            if not owed:
                del self._owed[id]

    def _on_receive(self, host: Host, message: object) -> None:
        copies = self.stack.copies.get(type(message))
        if copies is None:
            return
        for id in copies(message):
            count = self.copies.get((host.number, id), 0)
            self.copies[host.number, id] = count + 1
            if count:
                self.journal.wire_duplicates += 1

    def _on_fault(self, kind: str, node: int) -> None:
        if kind == "crash":
            self.journal.crashed(node, self.world.now)
            lost = [call for call in self._open_calls if call[0] == node]
            for call in lost:
                del self._open_calls[call]  # Whoever called is gone as well.
        elif kind in ("pause", "clog"):
            self.journal.failures.append((self.world.now, node))
        elif kind == "restart":
            self.journal.restarted(node, self.world.now)
