"""A soak: whole nodes for hours, under faults, with the oracle of all experiments.

Every node has its own process, which runs the same code as `smartpubsub node run`, and an
application that subscribes, reads and publishes. Nodes with even numbers keep their processes, to
measure growth; the others also leave, are killed and run out of disk.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import trio

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.spec import ProtocolSpec
from smartpubsub.sim.experiments.running import Progress, RunOptions, protocol_of
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.journal import Disturbance
from smartpubsub.sim.judging.oracle import UNDER_WAY_US
from smartpubsub.sim.judging.result import facts_of
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.testbed.messages import (
    Acknowledged,
    Act,
    Contained,
    Failed,
    News,
    PauseReading,
    Read,
    Ready,
    Setup,
    ShiftClock,
    StopReading,
    Unacknowledged,
)
from smartpubsub.testbed.run import JOIN_US_MAX, RealRun
from smartpubsub.testbed.soak.disks import Disks
from smartpubsub.testbed.soak.interests import Interest, Interests
from smartpubsub.testbed.soak.plan import FAR_S, Fault, Kind, Plan
from smartpubsub.testbed.soak.samples import Samples, sample
from smartpubsub.workloads.actions import (
    Action,
    CreateGroup,
    CreateTopic,
    Publish,
    Subscribe,
    Workload,
)

LEAVE_S_MAX = 20.0
"""How long a node has to close before its process is killed."""
RETURN_S = 1.0
"""How long a node stays down after a failed start."""
STARTS_MAX = 10
STOPPING_S = 10.0
"""How long a node takes to stop, at most, when its disk is full."""
OWED_US = SECOND
"""How often to compute the owed deliveries."""
STARTING_S_MAX = 120.0
THROUGH_MAX = 3
"""The number of nodes through which a node joins."""
UNPLANNED = 0
"""The invariant that a node or its core fails only because of an injected fault."""


@dataclass(frozen=True, kw_only=True)
class SoakOptions:
    """The length, the load and the faults of a soak."""

    seconds: float
    rate: float
    """Events a second, of all nodes together."""
    without: frozenset[Kind] = frozenset()
    warm_up_s: float = 600.0
    """The age from which a process counts as warm."""
    sample_s: float = 10.0


def _far_s(spec: ProtocolSpec) -> float:
    """How far clocks jump: no two may differ by more than the protocol allows."""
    allowed_us = spec.clock_skew_us_max
    return FAR_S if allowed_us is None else min(FAR_S, 0.4 * allowed_us / SECOND)


class Soak(RealRun):
    """A soak, from the start of the first process to the end of the last."""

    def __init__(
        self, options: RunOptions, wanted: SoakOptions, progress: Progress | None = None
    ) -> None:
        super().__init__(options, Workload(names=(), phases=()), progress=progress)
        self._news_handler = self._on_news
        self.wanted = wanted
        self.samples = Samples()
        self.faults: Counter[str] = Counter()
        self.publish_ms: list[float] = []
        self.errors: Counter[str] = Counter()
        """Calls that raised an error, by the error."""
        self.failures: list[Violation] = []
        """Nodes that stopped, or whose cores failed, without a fault that explains it."""
        self.contained: dict[int, Counter[str]] = {}
        """The failures of cores, by node and reason."""
        self.core_restarts: Counter[int] = Counter()
        self.disks_are = ""
        self.was_ended_early = False
        self.soaked_s = 0.0
        self._plan = Plan(
            stream(options.seed, "soak", "faults"),
            options.nodes,
            options.protocol_options.backups,
            wanted.without,
            _far_s(protocol_of(self)),
        )
        has_only_topics = protocol_of(self).has_only_topics
        self._interests = Interests(
            stream(options.seed, "soak", "interests"), has_only_topics=has_only_topics
        )
        self._present: dict[int, list[Interest]] = {}
        self._disks: Disks
        self._ready: dict[int, None] = {}
        """The nodes that run and have joined."""
        self._struck: dict[int, Kind] = {}
        """The nodes that are down or paused, and why."""
        self._clocks_us: dict[int, int] = {}
        self._resubscribing: dict[int, None] = {}
        """The nodes whose applications are about to end a subscription."""
        self._ends = trio.Event()
        self._rescuing: trio.Nursery
        self._is_owed = True
        self._owed_at_us = 0
        self._strikes: dict[Kind, Callable[[Fault], Awaitable[None]]] = {
            Kind.CHURN: self._churn,
            Kind.KILLS: self._kill,
            Kind.PAUSES: self._pause,
            Kind.DISKS: self._fill,
            Kind.CLOCKS: self._jump,
            Kind.READERS: self._pause_reading,
            Kind.SUBSCRIPTIONS: self._resubscribe,
        }

    # --- progress ---

    @property
    def sent_count(self) -> int:
        """The number of events published."""
        return len(self.observer.journal.events)

    def status(self) -> str:
        """The state of the soak in a line."""
        journal, owed = self.observer.journal, self.observer.owed_count
        rss = [taken[-1].rss_mb for taken in self.samples.by_node.values() if taken]
        return (
            f"{self._passed_s:,.0f} of {self.wanted.seconds:,.0f} s,"
            f" {len(journal.events):,} events, {len(journal.deliveries):,} deliveries,"
            f" at most {owed:,} owed, {self.faults.total():,} faults,"
            f" {len(self._struck)} nodes down, {len(self.failures)} unplanned failures,"
            f" {max(rss, default=0):,.0f} MB at most"
        )

    @property
    def _passed_s(self) -> float:
        return (self.now - self.began_us) / SECOND if self.began_us else 0.0

    # --- the course of a soak ---

    def _made_setup(self, folder: Path) -> Setup:
        self._disks = Disks(folder)
        self.disks_are = self._disks.kind
        return replace(super()._made_setup(folder), is_whole=True)

    async def _watch_for_interrupt(self, course: trio.CancelScope) -> None:
        """End in order at the first signal, and at once at the second."""
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                if self._ends.is_set() or not self.began_us:
                    self.was_interrupted = self.was_ended_early = True
                    course.cancel()
                    return
                self.was_ended_early = True
                self._ends.set()

    async def _go(self, nursery: trio.Nursery) -> None:
        self._rescuing = nursery
        nursery.start_soon(self._show)
        await self._assemble()
        self._progress.say("soaking")
        async with trio.open_nursery() as faults:
            async with trio.open_nursery() as soaking:
                soaking.start_soon(self._publish_all)
                soaking.start_soon(self._take_samples)
                soaking.start_soon(self._strike_all, faults)
                with trio.move_on_after(self.wanted.seconds):
                    await self._ends.wait()
                self._ends.set()
                self.soaked_s = self._passed_s
                soaking.cancel_scope.cancel()
            self._progress.say("ending the faults")
        await self._run_until_quiet()

    async def _show(self) -> None:
        while True:
            await trio.sleep(0.2)
            self._progress.tick(self)

    async def _assemble(self) -> None:
        self._progress.say("starting")
        nodes = range(self.options.nodes)
        for node in nodes:
            self._disks.make(self._setup.folder_of(node))
        await self._start(0)
        async with trio.open_nursery() as nursery:
            for node in nodes[1:]:
                nursery.start_soon(self._start, node)
        await self._create_all()
        self._progress.say("subscribing")
        for node in nodes:
            self._present[node] = self._interests.of_a_node()
            await self._subscribe_all(node)
        wanted = sum(map(len, self._present.values()))
        await self._wait(lambda: self._in_force_count() == wanted, JOIN_US_MAX)
        self.began_us = self.now

    def _in_force_count(self) -> int:
        records = self.observer.journal.subscriptions.values()
        return sum(record.is_in_force(self.now) for record in records)

    async def _create_all(self) -> None:
        """Create the groups or topics that the protocol needs."""
        spec = protocol_of(self)
        actions: list[Action] = []
        if spec.has_only_topics:
            actions += [CreateTopic(0, 0, name, True) for name in self._interests.topics()]
        if spec.group_for is not None:
            shapes = {spec.group_for(self._interests.event()[0]): None for _ in range(200)}
            nodes = range(self.options.nodes)
            actions += [CreateGroup(0, node, shape) for node in nodes for shape in shapes]
        for action in actions:
            await self._call(action)
        await self._wait(lambda: not self._is_something_open(), JOIN_US_MAX)

    async def _start(self, node: int) -> None:
        """Start a node, and wait until it has joined.

        During the soak, a node that does not join in time is killed and recorded.
        """
        ready = [one for one in self._ready if one != node]
        through = tuple(self._cluster.address_of(one) for one in ready[:THROUGH_MAX])
        await self._cluster.start_whole(node, through, self._clocks_us.get(node, 0))
        with trio.move_on_after(STARTING_S_MAX) as limit:
            while node not in self._ready and self._cluster.is_up(node):
                await trio.sleep(0.02)
        if limit.cancelled_caught:
            what = f"node {node} is not ready {STARTING_S_MAX:.0f} s after a start"
            if not self.began_us:
                raise SmartPubSubError(what)
            self._record(Violation(UNPLANNED, self.now, node, what))
            await self._cluster.crash(node)

    async def _subscribe_all(self, node: int) -> None:
        for interest in self._present.get(node, ()):
            await self._cluster.send(Read(node, self._on_nodes(interest.predicate), interest.keep))

    def _on_nodes(self, predicate: Predicate) -> Predicate:
        if not protocol_of(self).has_only_topics:
            return predicate
        action = self.observer.topics.on_nodes(Subscribe(0, 0, predicate))
        assert isinstance(action, Subscribe)
        return action.predicate

    async def _publish_all(self) -> None:
        rng = stream(self.options.seed, "soak", "events")
        interests = Interests(rng, has_only_topics=protocol_of(self).has_only_topics)
        for number in count(1):
            await self._until(self.began_us + round(number * SECOND / self.wanted.rate))
            predicate, payload = interests.event()
            node = rng.randrange(self.options.nodes)
            if self._is_free(node):
                action = Publish(0, node, self._on_nodes(predicate), payload)
                await self._cluster.send(Act(next(self._actions), action))

    async def _take_samples(self) -> None:
        while True:
            for node in range(self.options.nodes):
                process = self._cluster.process_of(node)
                if process is not None:
                    number, start = process
                    folder = self._setup.folder_of(node)
                    self.samples.add(node, sample(round(self._passed_s, 1), start, number, folder))
            await trio.sleep(self.wanted.sample_s)

    async def _until(self, us: int) -> None:
        await trio.sleep(max(0, us - self.now) / SECOND)

    def _is_free(self, node: int) -> bool:
        return node in self._ready and node not in self._struck

    def _is_something_owed(self) -> bool:
        # Exact, unlike the observer's list, which still has subscriptions that have ended.
        if self.now >= self._owed_at_us + OWED_US:
            self._is_owed = bool(facts_of(self).missing)
            self._owed_at_us = self.now
        return self._is_owed

    # --- faults ---

    async def _strike_all(self, nursery: trio.Nursery) -> None:
        while True:
            await trio.sleep(self._plan.gap_s())
            passed_s = self._passed_s
            fault = self._plan.next(passed_s, self.wanted.seconds - passed_s, self._is_free)
            if fault is not None:
                self.faults[fault.kind.value] += 1
                nursery.start_soon(self._strikes[fault.kind], fault)

    async def _last(self, seconds: float) -> None:
        """Wait for the length of a fault, or until the soak ends."""
        with trio.move_on_after(seconds):
            await self._ends.wait()

    async def _churn(self, fault: Fault) -> None:
        await self._leave(fault.node, fault.kind, fault.for_s)

    async def _leave(self, node: int, kind: Kind, for_s: float) -> None:
        self._struck[node] = kind
        self._ready.pop(node, None)
        await self._cluster.leave(node, LEAVE_S_MAX)
        await self._last(for_s)
        await self._return(node)

    async def _kill(self, fault: Fault) -> None:
        self._struck[fault.node] = fault.kind
        self._ready.pop(fault.node, None)
        await self._cluster.crash(fault.node)
        await self._last(fault.for_s)
        await self._return(fault.node)

    async def _pause(self, fault: Fault) -> None:
        node = fault.node
        self._struck[node] = fault.kind
        began_us = self.now
        self.observer.failed(began_us, node, "pause")
        self._cluster.signal(node, signal.SIGSTOP)
        await self._last(fault.for_s)
        self._cluster.signal(node, signal.SIGCONT)
        disturbance = Disturbance("pause", (node,), began_us, self.now)
        self.observer.journal.disturbances.append(disturbance)
        if self._struck.get(node) is fault.kind:  # Otherwise it has failed meanwhile.
            del self._struck[node]

    async def _fill(self, fault: Fault) -> None:
        node, folder = fault.node, self._setup.folder_of(fault.node)
        process = self._cluster.process_of(node)
        if process is None:
            return
        self._struck[node] = fault.kind
        self._disks.fill(folder, process[0])
        await self._last(fault.for_s)
        still = self._cluster.process_of(node)
        self._disks.free(folder, None if still is None else still[0])
        with trio.move_on_after(STOPPING_S):  # It may stop because of its full disk.
            while self._cluster.is_up(node):
                await trio.sleep(0.1)
        if self._cluster.is_up(node):
            del self._struck[node]
        else:
            await self._return(node)

    async def _jump(self, fault: Fault) -> None:
        """Set a node's clock; a node that may end is restarted with the new time."""
        self._clocks_us[fault.node] = clock_us = round(fault.clock_s * SECOND)
        if fault.node in self._plan.mortal:
            await self._leave(fault.node, fault.kind, 0.0)
        else:
            await self._cluster.send(ShiftClock(fault.node, clock_us))

    async def _pause_reading(self, fault: Fault) -> None:
        await self._cluster.send(PauseReading(fault.node, fault.for_s))

    async def _resubscribe(self, fault: Fault) -> None:
        """End a subscription, and begin another."""
        node, present = fault.node, self._present[fault.node]
        if node in self._resubscribing:
            return
        ends, begins = self._interests.instead_of(present)
        predicate = self._on_nodes(ends.predicate)
        self._resubscribing[node] = None
        if await self._has_all_that_is_owed(node, predicate):
            present[present.index(ends)] = begins
            await self._cluster.send(StopReading(node, predicate))
            await self._cluster.send(Read(node, self._on_nodes(begins.predicate), keep=False))
        del self._resubscribing[node]

    async def _has_all_that_is_owed(self, node: int, predicate: Predicate) -> bool:
        """Wait until a subscription that is to end has got the events of before; False at the end.

        After a failure an event may be under way for minutes. If the application ended the
        subscription meanwhile, the event would seem to be lost.
        """
        self._ledger.given_up_us[node, predicate] = given_up_us = self.now
        until_us = given_up_us - UNDER_WAY_US
        while not self._is_free(node) or self.observer.owes_before(until_us, node, predicate):
            await self._last(OWED_US / SECOND)
            if self._ends.is_set():
                del self._ledger.given_up_us[node, predicate]
                return False
        return True

    async def _return(self, node: int) -> None:
        for _ in range(STARTS_MAX):
            await self._start(node)
            if node in self._ready:
                self._struck.pop(node, None)
                await self._subscribe_all(node)
                return
            await trio.sleep(RETURN_S)
        raise SmartPubSubError(f"node {node} has failed {STARTS_MAX} times while it started")

    async def _end(self) -> None:
        for node in range(self.options.nodes):
            self._cluster.signal(node, signal.SIGCONT)
        await super()._end()

    # --- news ---

    def _on_news(self, node: int, news: News) -> None:
        match news:
            case Ready():
                self._ready[node] = None
            case Acknowledged(ms):
                self.publish_ms.append(ms)
            case Unacknowledged(error):
                self.errors[error[:200]] += 1
            case Failed(reason):
                self._on_failed(node, reason)
            case Contained():
                self._on_contained(node, news)

    def _on_failed(self, node: int, reason: str) -> None:
        """Record a failure that no fault explains; the soak goes on."""
        self._ready.pop(node, None)
        kind = self._struck.get(node)
        if kind is Kind.DISKS:
            return  # The node returns when its disk has room again.
        if not self.began_us:
            raise SmartPubSubError(f"node {node} has stopped: {reason}")
        violation = Violation(UNPLANNED, self.now, node, f"node {node} has stopped: {reason}")
        self._record(violation)
        if kind is None or kind is Kind.PAUSES:  # Otherwise the end of its fault starts it.
            self._struck[node] = Kind.KILLS
            self._rescuing.start_soon(self._return, node)

    def _on_contained(self, node: int, news: Contained) -> None:
        """Record a failure of a core, which only a full disk excuses."""
        self.contained.setdefault(node, Counter()).update(news.failures)
        self.core_restarts[node] += news.restarts
        if news.restarts and self._struck.get(node) is not Kind.DISKS:
            reasons = "; ".join(news.failures) or "unknown"
            what = f"the core of node {node} was restarted: {reasons}"
            self._record(Violation(UNPLANNED, self.now, node, what))

    def _record(self, violation: Violation) -> None:
        self.failures.append(violation)
        self._progress.say(violation.what)
