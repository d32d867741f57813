"""The faults of a run on real nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import trio

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.sim.judging.journal import Split
from smartpubsub.sim.judging.observer import Observer
from smartpubsub.sim.kernel.faults import Churn, Crash, Fault, Partition
from smartpubsub.testbed.cluster import Cluster
from smartpubsub.testbed.messages import Cut
from smartpubsub.workloads.actions import CrashNode, LeaveNode, RestartNode, Workload


class Disasters:
    """Applies faults to a cluster at their times."""

    def __init__(self, cluster: Cluster, observer: Observer, now: Callable[[], int]) -> None:
        self._cluster = cluster
        self._observer = observer
        self._now = now

    def plan(self, fault: Fault, nursery: trio.Nursery) -> None:
        """Schedule a fault."""
        for crash in _crashes_in(fault):
            nursery.start_soon(self._crash, crash)
        if isinstance(fault, Partition):
            nursery.start_soon(self._cut, fault)

    async def _crash(self, crash: Crash) -> None:
        await self._until(crash.at_us)
        await self._cluster.crash(crash.node, with_storage=crash.with_storage)
        if crash.restart_at_us is not None:
            await self._until(crash.restart_at_us)
            await self._cluster.restart(crash.node)

    async def _cut(self, split: Partition) -> None:
        await self._until(split.at_us)
        group = frozenset(split.group)
        self._observer.journal.splits.append(Split(group, split.at_us, split.until_us))
        await self._cluster.send_all(Cut(group, split.one_way))
        await self._until(split.until_us)
        await self._cluster.send_all(Cut(frozenset()))

    async def _until(self, us: int) -> None:
        await trio.sleep(max(0, us - self._now()) / SECOND)


STOPS = CrashNode | LeaveNode | RestartNode


def nodes_that_crash(workload: Workload, faults: Iterable[Fault]) -> list[int]:
    """The nodes that need a process of their own, because it will be killed."""
    crashing = [a.node for a in workload.actions() if isinstance(a, STOPS)]
    return crashing + [crash.node for fault in faults for crash in _crashes_in(fault)]


def _crashes_in(fault: Fault) -> Iterator[Crash]:
    match fault:
        case Crash():
            yield fault
        case Churn():
            yield from fault.crashes()
        case Partition():
            pass
        case _:
            raise SmartPubSubError(
                f"{type(fault).__name__} is a fault that only the simulator supports"
            )
