"""One experiment: nodes that run a protocol, a workload, faults, and a journal of the run.

The nodes join, the overlay settles, then the phases of the workload follow each other. The run is
over when all owed events have come and some time has passed in which duplicates could have come, or
when no more missing events come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Joined
from smartpubsub.protocols.capabilities import Convicts
from smartpubsub.protocols.codecs import Codec, WireLimits, common_codecs
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Inspection, Refused
from smartpubsub.protocols.registry import spec_of
from smartpubsub.seam import Effect, Event, Peer
from smartpubsub.sim.adversaries.crowd import Crowd
from smartpubsub.sim.adversaries.node import CredulousSigning
from smartpubsub.sim.experiments.calls import call
from smartpubsub.sim.experiments.invariants import InvariantChecks
from smartpubsub.sim.experiments.preparation import prepared
from smartpubsub.sim.experiments.running import (
    LINGER_US,
    PHASE_GAP_US,
    PHASE_US_MAX,
    QUIET_US_MAX,
    SETTLE_US,
    Progress,
    RunOptions,
    Traffic,
    check_size,
    make_core,
)
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.journal import Disturbance, Split
from smartpubsub.sim.judging.observer import Observer
from smartpubsub.sim.judging.paths import Paths
from smartpubsub.sim.kernel.faults import Clog, Fault, Partition, Pause, Skew, struck_nodes
from smartpubsub.sim.kernel.population import Population, settled_tables
from smartpubsub.sim.kernel.signing import StandInSigning
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.sim.kernel.world import Host, World
from smartpubsub.sim.traces.trace import Trace
from smartpubsub.workloads.actions import Action, CrashNode, LeaveNode, RestartNode, Workload

JOINING_NODES_MAX = 300
"""Larger overlays get settled routing tables instead of joining, which saves minutes."""
MINTED_PREFIX = "minted"
"""The address prefix of all nodes with minted ids, which one attacker owns. No two honest nodes
have the same prefix."""
SLICE_US = 100_000
WATCH_US = 2_000_000
"""How often the limits of all nodes are checked."""


FaultPlan: TypeAlias = Callable[[int], Iterable[Fault]]
"""Maps the time when the workload begins to the faults from then on."""


def nothing_fails(_: int) -> Iterable[Fault]:
    """The plan of a world without faults."""
    return ()


class Experiment:
    """A run, from the first node's start to the last event's delivery."""

    def __init__(
        self,
        options: RunOptions,
        workload: Workload,
        faults: FaultPlan = nothing_fails,
        *,
        fault_phase: int = 0,
        trace: Trace | None = None,
        progress: Progress | None = None,
        on_effects: Callable[[Host, Sequence[Effect]], None] | None = None,
    ) -> None:
        check_size(options, workload)
        self.options = options
        self.spec = spec_of(options.protocol)
        self.workload = prepared(workload, self.spec)
        codecs = [*common_codecs(options.kademlia), *self.spec.codecs(WireLimits())]
        self._event_ids = {c.message: c.event_ids for c in codecs if c.event_ids is not None}
        self.trace = trace or Trace()
        self.observer = Observer(self.trace, self._region)
        self.journal = self.observer.journal
        self.oracle = self.observer.oracle
        self.inspections: list[tuple[int, int, Inspection]] = []
        self.was_interrupted = False
        self.began_us = 0
        self.traffic_before: list[Traffic] = []
        self._fault_plan = faults
        self._fault_phase = fault_phase
        """The phase of the workload, from 0 on, at whose beginning the faults are planned."""
        self._progress = progress or Progress()
        self._postponed: dict[int, int] = {}
        """Actions of paused nodes, and when they were planned."""
        self._watch_at = 0
        self._watched: dict[int, int] = {}
        """How many turns each node had taken when its limits were checked."""
        self.world = World(
            options.network,
            options.seed,
            {codec.message: codec.wire_bytes or codec.size for codec in codecs},
            through=_through(codecs) if options.is_encoded else {},
            trace=self.trace,
            on_deliver=self._on_deliver,
            on_receive=self._on_receive,
            on_effects=on_effects,
            on_lost=self._on_lost,
        )
        self.world.on_fault = self._on_fault
        self.checks = InvariantChecks(self.world, options.check_stride)
        if options.checks_invariants:
            self.world.on_handled = self._check
        self._population = Population(self.world, options.seed, options.peers)
        honest = [self._population.contact(number) for number in range(options.nodes)]
        self.crowd = Crowd(options.adversaries, self.workload, honest, options.seed)
        if self.crowd.sybils:
            peers = (*(contact.peer for contact in honest), *self.crowd.sybils)
            self._population = Population(self.world, options.seed, peers)
        for number in range(options.nodes + len(self.crowd.sybils)):
            host = self._population.add(self._make_core, options.started_before)
            host.prefix = MINTED_PREFIX if number >= options.nodes else ""

    def _region(self, node: int) -> int:
        return self.world.network.region(node)

    def _make_core(self, own: Contact, incarnation: int) -> NodeCore:
        adversary = self.crowd.of_peer(own.peer)
        if adversary is None:
            return make_core(self.options, own, StandInSigning(own.peer), incarnation)
        make = partial(self.crowd.make, adversary)
        return make_core(self.options, own, CredulousSigning(own.peer), incarnation, make)

    def core(self, number: int) -> NodeCore:
        """A node's core."""
        core = self.world.hosts[number].core
        assert isinstance(core, NodeCore)
        return core

    def _check(self, host: Host, event: Event | None, effects: Sequence[Effect]) -> None:
        if host.number not in self.crowd:
            self.checks.on_handled(host, event, effects)

    # --- phases of a run ---

    def run(self) -> None:
        """Run to the end; Ctrl-C ends the run early."""
        try:
            self._assemble()
            self.crowd.begin()
            own = self._fault_plan(self.began_us)
            if self._fault_phase:
                # How long the phases before take is not known yet. Clocks are wrong from the start.
                own = [fault for fault in own if isinstance(fault, Skew)]
            faults = [*own, *self.crowd.faults(self.began_us)]
            self._plan_adversaries()
            for fault in faults:
                self._plan(fault)
            self._watch_paths(faults)
            for at_us in self.options.newcomers_us:
                self.world.at(self.began_us + at_us, self._add_newcomer)
            for number, phase in enumerate(self.workload.phases, 1):
                if number > 1:
                    self._run(self.world.now + PHASE_GAP_US)
                if number > 1 and number == self._fault_phase + 1:
                    late = [f for f in self._fault_plan(self.world.now) if not isinstance(f, Skew)]
                    for fault in late:
                        self._plan(fault)
                    self._watch_paths([*faults, *late])
                self._progress.say(f"phase {number} of {len(self.workload.phases)}")
                self._run_phase(phase)
            self._run_until_quiet()
        except KeyboardInterrupt:
            self.was_interrupted = True
        self.inspect()
        self.journal.ended_us = self.world.now

    def _plan_adversaries(self) -> None:
        """Plan the calls of adversaries, and the joins of those that join during the workload."""
        for action in self.crowd.calls():
            self.world.at(self.began_us + action.at_us, partial(self._act, action))
        for node, after_us in self.crowd.late_us.items():
            self.world.at(self.began_us + after_us, partial(self._join_late, node))

    def inspect(self) -> None:
        """Inspect all nodes that are up."""
        for host in self._honest_hosts():
            if host.is_up:
                inspection = self.core(host.number).pubsub.inspect()
                self.inspections.append((self.world.now, host.number, inspection))

    def _honest_hosts(self) -> list[Host]:
        return [host for host in self.world.hosts if host.number not in self.crowd]

    def _watch_bounds(self) -> None:
        """Record the limits that nodes exceed at this moment, of nodes that have done anything."""
        for host in self._honest_hosts():
            if not host.is_up or self._watched.get(host.number) == host.turn_count:
                continue
            self._watched[host.number] = host.turn_count
            bounds = self.core(host.number).pubsub.tally().bounds
            beyond = tuple(bound for bound in bounds if bound.held > bound.held_max)
            if beyond:
                found = Inspection(bounds=beyond)
                self.inspections.append((self.world.now, host.number, found))

    def _assemble(self) -> None:
        self._progress.say("joining")
        if self.options.nodes <= JOINING_NODES_MAX:
            at_first = len(self.world.hosts) - len(self.crowd.late_us)
            self._population.join_all(lambda _: self._progress.tick(self.world), at_first)
        else:
            self._lay_out()
        self._run(self.world.now + SETTLE_US)
        self.began_us = self.world.now
        self.traffic_before = [_traffic_of(host) for host in self.world.hosts]

    @property
    def adversary_counts(self) -> Mapping[str, int]:
        """The number of nodes of each kind of adversary."""
        return self.crowd.counts()

    @property
    def liars(self) -> Collection[Peer]:
        """The adversaries."""
        return self.crowd.peers

    @property
    def newcomers(self) -> Collection[Peer]:
        """The nodes that joined during the run."""
        return self.peers[self.options.nodes + len(self.crowd.sybils) :]

    def _convicted(self) -> dict[Peer, None]:
        """The nodes that any honest node has convicted."""
        cores = [self.core(host.number).pubsub for host in self._honest_hosts() if host.is_up]
        return {
            peer: None for core in cores if isinstance(core, Convicts) for peer in core.convicted()
        }

    @property
    def convicted_counts(self) -> Mapping[str, int]:
        """The number of convicted adversaries of each kind."""
        return self.crowd.counts(self._convicted())

    @property
    def convicted_honest(self) -> int:
        """The number of honest nodes that were convicted."""
        return sum(peer not in self.crowd.peers for peer in self._convicted())

    @property
    def state_check_count(self) -> int:
        """How many times the state of a node was checked."""
        return self.checks.count

    @property
    def state_violations(self) -> list[Violation]:
        """The violations that checks of states found."""
        return self.checks.violations

    @property
    def peers(self) -> list[Peer]:
        """The peer ids of the nodes, in the order of their numbers."""
        return [host.peer for host in self.world.hosts]

    def traffic(self) -> list[Traffic]:
        """The messages that each node has sent and received since the overlay was complete."""
        return [
            _traffic_of(host).since(before)
            for host, before in zip(self.world.hosts, self.traffic_before, strict=False)
        ]

    def _lay_out(self) -> None:
        hosts = [host for host in self.world.hosts if host.number not in self.crowd.late_us]
        contacts = [self._population.contact(host.number) for host in hosts]
        rng = stream(self.options.seed, "layout")
        tables = settled_tables(contacts, self.options.kademlia.k, rng)
        for host, known in zip(hosts, tables, strict=True):
            now = host.clock(self.world.now)
            effects = self.core(host.number).settle(known, now, self.world.prefix_of)
            self.world.carry_out(host, effects)

    def _plan(self, fault: Fault) -> None:
        fault.plan(self.world)
        match fault:
            case Partition():
                split = Split(frozenset(fault.group), fault.at_us, fault.until_us)
                self.journal.splits.append(split)
            case Pause():
                disturbance = Disturbance("pause", (fault.node,), fault.at_us, fault.until_us)
                self.journal.disturbances.append(disturbance)
            case Clog():
                nodes = (fault.sender, fault.receiver)
                disturbance = Disturbance("clog", nodes, fault.at_us, fault.until_us)
                self.journal.disturbances.append(disturbance)

    def _watch_paths(self, faults: Iterable[Fault]) -> None:
        """Record which failing nodes handle events of which publishers."""
        paths = Paths(self._failing_nodes(faults))
        self.journal.handlers = paths.handlers
        if self.spec.promises_order and paths.watched:
            self.world.on_send = paths.on_send

    def _failing_nodes(self, faults: Iterable[Fault]) -> Collection[int]:
        """All nodes that may fail in the run."""
        failing = {node: None for fault in faults for node in struck_nodes(fault)}
        stopping = (a for a in self.workload.actions() if isinstance(a, CrashNode | LeaveNode))
        return failing | {action.node: None for action in stopping}

    def _add_newcomer(self) -> None:
        """Add a node, which joins by way of any live node."""
        new = self._population.add(self._make_core, self.options.started_before)
        self._join_late(new.number)

    def _join_late(self, number: int) -> None:
        """Have a node join through any other live node, except an adversary that joins late."""
        late = (number, *self.crowd.late_us)
        there = [h.number for h in self.world.hosts if h.is_up and h.number not in late]
        rng = stream(self.options.seed, "newcomer", str(number))
        self._population.join(number, [self._population.contact(rng.choice(there))])

    def _run_phase(self, phase: Iterable[Action]) -> None:
        start = end = self.world.now
        for action in phase:
            end = start + action.at_us
            self.world.at(end, partial(self._act, action))
        self._run(end)
        self._run_while(self._is_something_open, end + PHASE_US_MAX)

    def _is_something_open(self) -> bool:
        return self.observer.has_open_calls or bool(self._postponed)

    def _run_until_quiet(self) -> None:
        self._progress.say("waiting for the network to be quiet")
        deadline = self.world.now
        delivered = -1
        while self.world.now < deadline or len(self.journal.deliveries) > delivered:
            if self.world.now >= deadline:  # Missing events still come, slowly.
                deadline = self.world.now + QUIET_US_MAX
                delivered = len(self.journal.deliveries)
            self._run_while(self._is_something_owed, deadline)
            self._run(self.world.now + LINGER_US)
            # Meanwhile a node that is owed an event may have restarted.
            if not self._is_something_owed():
                return

    def _run(self, until: int) -> None:
        self.world.run(self.world.now)  # Handle what is due now even if `until` is now.
        while self.world.now < until:
            self.world.run(min(until, self.world.now + SLICE_US))
            self._progress.tick(self.world)
            if self.world.now >= self._watch_at:
                self._watch_at = self.world.now + WATCH_US
                self._watch_bounds()

    def _run_while(self, condition: Callable[[], bool], until: int) -> None:
        while condition() and self.world.now < until:
            self._run(self.world.now + SLICE_US)

    def _is_something_owed(self) -> bool:
        hosts = self.world.hosts
        return self.observer.owes(lambda node: hosts[node].is_up)

    # --- calls of applications ---

    def _act(self, action: Action) -> None:
        host = self.world.hosts[action.node]
        is_paused = host.is_up and host.paused_until > self.world.now
        if is_paused and not isinstance(action, CrashNode):  # So is its application.
            self._postponed.setdefault(id(action), self.world.now)
            # The node first handles the inputs that came meanwhile.
            self.world.at(host.paused_until + 1, partial(self._act, action))
            return
        wanted_us = self._postponed.pop(id(action), self.world.now)
        match action:
            case RestartNode():
                if not host.is_up:
                    self._restart(host)
            case _ if not host.is_up:
                pass  # A node that is down neither calls nor crashes.
            case CrashNode():
                self.world.crash(host)
            case LeaveNode():
                goodbyes = self.core(host.number).leave(host.clock(self.world.now))
                self.world.leave(host, goodbyes)
            case _:
                self._call(host, action, wanted_us)

    def _restart(self, host: Host) -> None:
        """Start a node again, and have it join through the peers that it remembers, if any."""
        self.world.restart(host)
        effects = self.core(host.number).join((), host.clock(self.world.now))
        self.world.carry_out(host, effects)

    def _call(self, host: Host, action: Action, wanted_us: int | None = None) -> None:
        now = self.world.now
        on_node = self.observer.topics.on_nodes(action) if self.spec.has_only_topics else action
        if on_node is None:
            return  # The node that should have created its topic was down.
        asked, effects = call(self.core(host.number), self.spec, on_node, host.clock(now))
        if asked is not None:
            if host.number not in self.crowd:
                self.observer.called(now, host.number, asked, wanted_us)
            elif isinstance(asked.key, EventId):
                # Honest nodes may deliver an adversary's event or drop it.
                self.observer.called(now, host.number, asked)
                refused = Refused(asked.key, "published by an adversary")
                self.observer.on_delivered(now, host.number, host.incarnation, refused)
            self.world.carry_out(host, effects)

    # --- deliveries to applications ---

    def _on_deliver(self, host: Host, item: object) -> None:
        if host.number not in self.crowd:  # Only honest nodes are judged.
            self.observer.on_delivered(self.world.now, host.number, host.incarnation, item)
        if isinstance(item, Joined):
            self._population.joined[host.number] = None

    def _on_receive(self, host: Host, peer: Peer, message: object) -> None:
        if host.number in self.crowd:
            return
        event_ids = self._event_ids.get(type(message))
        if event_ids is not None and (ids := event_ids(message)):
            sender = self.world.number_of(peer)
            self.observer.came(self.world.now, host.number, sender, ids)

    def _on_lost(self) -> None:
        self.journal.lost_us.append(self.world.now)

    def _on_fault(self, kind: str, node: int) -> None:
        self.observer.failed(self.world.now, node, kind)


def _traffic_of(host: Host) -> Traffic:
    return Traffic(host.sent_count, host.received_count, host.sent_bytes)


def _through(codecs: Iterable[Codec]) -> dict[type, Callable[[Any], Any]]:
    """Functions that encode and decode messages."""
    return {codec.message: partial(_written_and_read, codec) for codec in codecs}


def _written_and_read(codec: Codec, message: object) -> object:
    return codec.decode(codec.encode(message))
