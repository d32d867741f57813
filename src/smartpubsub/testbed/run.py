"""One experiment on real nodes, with the same course as in the simulator, in real time.

Times are microseconds since the run began, on the clock that all processes of a machine share.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import SimpleQueue

import trio

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.node.api.lone_errors import lone_errors
from smartpubsub.seam import Peer
from smartpubsub.sim.adversaries.crowd import Crowd
from smartpubsub.sim.experiments.experiment import FaultPlan, nothing_fails
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
    protocol_of,
)
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.observer import Observer
from smartpubsub.sim.kernel.places import region_of
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.sim.traces.trace import Trace
from smartpubsub.testbed.cluster import Cluster, Member
from smartpubsub.testbed.disasters import Disasters, nodes_that_crash
from smartpubsub.testbed.identities import peer_of
from smartpubsub.testbed.joiners import Joiners
from smartpubsub.testbed.ledger import Ledger
from smartpubsub.testbed.messages import Act, Inspect, Join, News, Settle, Setup
from smartpubsub.testbed.processes import launcher
from smartpubsub.workloads.actions import Action, CrashNode, LeaveNode, RestartNode, Workload

JOIN_US_MAX = 15 * MINUTE
LEAVE_US_MAX = 5 * SECOND
"""How long a node that leaves has for its goodbyes."""
POLL_S = 0.02
OBEY_S = 0.2
END_S_MAX = 30.0
"""How long to wait for the last reports."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The distribution of nodes over processes."""

    workers: int = 2
    """The number of processes for nodes that do not crash."""
    isolate: bool = False
    """Whether each node has its own process."""

    def places(self, nodes: int, alone: Iterable[int]) -> list[list[int]]:
        """The nodes of each process; those in `alone` get their own."""
        apart = range(nodes) if self.isolate else sorted(set(alone))
        together = [node for node in range(nodes) if node not in apart]
        shared = [together[start :: self.workers] for start in range(self.workers)]
        return [*filter(None, shared), *([node] for node in apart)]


class RealRun:
    """A run, from the start of the first process to the end of the last."""

    def __init__(
        self,
        options: RunOptions,
        workload: Workload,
        faults: FaultPlan = nothing_fails,
        *,
        layout: Layout | None = None,
        trace: Trace | None = None,
        progress: Progress | None = None,
        kills: SimpleQueue[int] | None = None,
    ) -> None:
        """Make a run; `kills` gets the numbers of nodes that the user of the page wants to kill."""
        check_size(options, workload)
        self.options = options
        self.workload = prepared(workload, protocol_of(self))
        self.layout = layout or Layout()
        self.observer = Observer(trace or Trace(), self._region)
        contacts = [Contact.of(peer) for peer in options.peers]
        self._crowd = Crowd(options.adversaries, self.workload, contacts, options.seed, peer_of)
        self._ledger = Ledger(self.observer, self.node_count, self._crowd)
        self.inspections = self._ledger.inspections
        self.members: Sequence[Member] = ()
        """All workers of the run, with their resource use."""
        self.began_us = 0
        self.was_interrupted = False
        self._fault_plan = faults
        self._progress = progress or Progress()
        self._kills = kills
        self._base_ns = time.monotonic_ns()
        self._actions = count(1)
        self._joiners = Joiners()
        self._news_handler: Callable[[int, News], None] | None = None
        self._setup: Setup
        self._cluster: Cluster
        self._disasters: Disasters

    # --- properties ---

    @property
    def now(self) -> int:
        """The time since the run began, in microseconds."""
        return (time.monotonic_ns() - self._base_ns) // 1_000

    @property
    def node_count(self) -> int:
        """The number of nodes, with sybils."""
        return self.options.nodes + len(self._crowd.sybils)

    @property
    def sent_count(self) -> int:
        """The number of messages that they have sent."""
        return self._ledger.sent_count

    @property
    def adversary_counts(self) -> Mapping[str, int]:
        """The number of nodes of each kind of adversary."""
        return self._crowd.counts()

    @property
    def liars(self) -> Collection[Peer]:
        """The adversaries."""
        return self._crowd.peers

    @property
    def newcomers(self) -> Collection[Peer]:
        """The nodes that joined during the run: none."""
        return ()

    @property
    def convicted_counts(self) -> Mapping[str, int]:
        """The number of convicted adversaries of each kind."""
        return self._crowd.counts(self._ledger.convicted)

    @property
    def convicted_honest(self) -> int:
        """The number of honest nodes that were convicted."""
        return sum(peer not in self._crowd.peers for peer in self._ledger.convicted)

    @property
    def state_check_count(self) -> int:
        """The number of checks of states: none on real nodes."""
        return 0

    @property
    def state_violations(self) -> Sequence[Violation]:
        """The violations that checks of states found."""
        return ()

    @property
    def peers(self) -> Sequence[Peer]:
        """The peers, in the order of the nodes' numbers."""
        return (*self.options.peers, *self._crowd.sybils)

    def _region(self, node: int) -> int:
        return region_of(self.peers[node], self.options.network.regions)

    def traffic(self) -> list[Traffic]:
        """The messages that each node has sent and received since the workload began."""
        return self._ledger.traffic

    # --- the course of a run ---

    def run(self) -> None:
        """Run the experiment; Ctrl-C ends it early."""
        with launcher() as launching, lone_errors():
            self._setup = self._made_setup(launching.folder)

            async def main() -> None:
                async with trio.open_nursery() as nursery:
                    self._cluster = Cluster(
                        launching, self._setup, self._ledger.enter, nursery, self._news_handler
                    )
                    self._disasters = Disasters(self._cluster, self.observer, lambda: self.now)
                    self.members = self._cluster.members
                    try:
                        with trio.CancelScope() as course:
                            nursery.start_soon(self._watch_for_interrupt, course)
                            if self._kills is not None:
                                nursery.start_soon(self._obey, self._kills)
                            await self._go(nursery)
                        await self._end()
                    finally:
                        self._cluster.close()
                    nursery.cancel_scope.cancel()

            trio.run(main)
        self.observer.journal.ended_us = self.now

    def _made_setup(self, folder: Path) -> Setup:
        return Setup(
            options=self.options,
            folder=folder,
            base_ns=self._base_ns,
            hostile=self._crowd.by_node,
            minted=self._crowd.minted,
        )

    async def _watch_for_interrupt(self, course: trio.CancelScope) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                self.was_interrupted = True
                course.cancel()
                return

    async def _obey(self, kills: SimpleQueue[int]) -> None:
        """Kill the nodes that the user of the page wants to kill, and update the page."""
        while True:
            await trio.sleep(OBEY_S)
            self.observer.trace.flush()
            while self.began_us and not kills.empty():
                await self._act(CrashNode(0, kills.get()))

    async def _go(self, nursery: trio.Nursery) -> None:
        await self._assemble()
        for fault in self._fault_plan(self.began_us):
            self._disasters.plan(fault, nursery)
        for number, phase in enumerate(self.workload.phases, 1):
            if number > 1:
                await self._sleep(PHASE_GAP_US)
            self._progress.say(f"phase {number} of {len(self.workload.phases)}")
            await self._run_phase(phase)
        await self._run_until_quiet()

    async def _assemble(self) -> None:
        self._progress.say("starting")
        alone = nodes_that_crash(self.workload, self._fault_plan(0))
        await self._cluster.start(self.layout.places(self.node_count, alone))
        await self._wait(lambda: len(self._ledger.contacts) == self.node_count, JOIN_US_MAX)
        await self._cluster.send_ports()
        self._progress.say("joining")
        await self._join_all()
        await self._cluster.send_all(Settle())
        await self._sleep(SETTLE_US)
        self.began_us = self._ledger.counts_since_us = self.now

    async def _join_all(self) -> None:
        rng = stream(self.options.seed, "bootstrap")
        joined, wanted = self._ledger.joined, self.node_count
        await self._cluster.send(Join(0, ()))
        started = 1
        deadline = self.now + JOIN_US_MAX
        while len(joined) < wanted:
            # Nodes join only through nodes that have joined.
            may_have_started = min(wanted, len(joined) + min(len(joined), self._joiners.at_once))
            for node in range(started, may_have_started):
                through = rng.choice(list(joined))
                self._joiners.start(node, self.now)
                await self._cluster.send(Join(node, (self._ledger.contacts[through],)))
            started = max(started, may_have_started)
            await trio.sleep(POLL_S)
            self._joiners.look(joined, self.now)
            self._progress.tick(self)
            if self.now > deadline:
                raise SmartPubSubError(
                    f"only {len(joined)} of {wanted} nodes have joined after"
                    f" {JOIN_US_MAX // MINUTE} minutes; use fewer nodes, or better link conditions"
                )

    async def _run_phase(self, phase: Iterable[Action]) -> None:
        start_us = self.now
        for action in phase:
            await self._sleep(start_us + action.at_us - self.now)
            await self._act(action)
        await self._wait(lambda: not self._is_something_open(), PHASE_US_MAX)

    def _is_something_open(self) -> bool:
        return bool(self._ledger.to_do) or self.observer.has_open_calls

    async def _run_until_quiet(self) -> None:
        self._progress.say("waiting for the network to be quiet")
        deadline = self.now + QUIET_US_MAX
        while True:
            await self._wait(lambda: not self._is_something_owed(), deadline - self.now)
            await self._sleep(LINGER_US)
            # Meanwhile a node with expected deliveries may have returned.
            if not self._is_something_owed() or self.now >= deadline:
                return

    def _is_something_owed(self) -> bool:
        return self.observer.owes(self._cluster.is_up)

    async def _end(self) -> None:
        """Inspect the nodes, and collect the last reports."""
        with trio.move_on_after(END_S_MAX):
            # Before the workload, some nodes may not have started, and would not report; a checker
            # has nothing to judge yet.
            if self.began_us:
                await self._inspect_all()
            await self._cluster.end()

    async def _inspect_all(self) -> None:
        honest = [node for node in range(self.options.nodes) if node not in self._crowd]
        up = sum(map(self._cluster.is_up, honest))
        await self._cluster.send_all(Inspect())
        while len(self.inspections) < up:
            await trio.sleep(POLL_S)

    async def _sleep(self, us: int) -> None:
        await self._wait(lambda: False, us)

    async def _wait(self, condition: Callable[[], bool], us_max: int) -> bool:
        """Wait for a condition up to a time limit; return whether it holds."""
        deadline = self.now + us_max
        while not condition():
            left_s = (deadline - self.now) / SECOND
            if left_s <= 0:
                return False
            await trio.sleep(min(POLL_S, left_s))
            self._progress.tick(self)
        return True

    # --- actions ---

    async def _act(self, action: Action) -> None:
        cluster = self._cluster
        match action:
            case RestartNode(_, node):
                await cluster.restart(node)
            case _ if not cluster.is_up(action.node):
                pass  # A node that is down can neither call nor crash.
            case CrashNode(_, node):
                await cluster.crash(node)
            case LeaveNode(_, node):
                await self._call(action)
                await self._wait(lambda: not self._ledger.to_do, LEAVE_US_MAX)
                await cluster.crash(node, kind="leave")
            case _:
                await self._call(action)

    async def _call(self, action: Action) -> None:
        has_topics = protocol_of(self).has_only_topics
        on_node = self.observer.topics.on_nodes(action) if has_topics else action
        if on_node is None:
            return  # The node that should have created the topic was down.
        number = next(self._actions)
        self._ledger.to_do[number] = None
        await self._cluster.send(Act(number, on_node))
