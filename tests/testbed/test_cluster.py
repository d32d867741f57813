"""A node has one process, however slowly processes start and whoever wants it to return."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import trio
import trio.testing

from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.testbed.cluster import Cluster
from smartpubsub.testbed.messages import Report, Setup
from smartpubsub.testbed.processes import Launcher

LAUNCH_S = 5.0


class StandInProcess:
    """A process that does nothing, until it is killed."""

    def __init__(self) -> None:
        self.is_killed = trio.Event()

    async def send(self, command: object) -> None:
        """Take no notice."""

    async def next_report(self) -> Report | None:
        await self.is_killed.wait()
        return None

    def close(self) -> None:
        self.is_killed.set()


class SlowLauncher:
    """Takes its time to start a process."""

    def __init__(self) -> None:
        self.launched: list[StandInProcess] = []

    async def launch(self, _: Setup) -> StandInProcess:
        await trio.sleep(LAUNCH_S)
        self.launched.append(StandInProcess())
        return self.launched[-1]

    async def kill(self, process: StandInProcess) -> None:
        process.is_killed.set()

    @property
    def running(self) -> int:
        return sum(not process.is_killed.is_set() for process in self.launched)


def run(test: Callable[[Cluster, SlowLauncher, trio.Nursery], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            slow: Any = SlowLauncher()
            setup = Setup(options=RunOptions(nodes=1), folder=Path("nowhere"), base_ns=0)
            cluster = Cluster(cast(Launcher, slow), setup, lambda _: None, nursery)
            await cluster.start([[0]])
            await test(cluster, slow, nursery)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_processes_that_were_let_go_may_end() -> None:
    async def test(cluster: Cluster, launcher: SlowLauncher, _: trio.Nursery) -> None:
        cluster.close()
        await trio.sleep(1)
        assert launcher.running == 0

    run(test)


def test_a_node_that_is_to_return_twice_returns_once() -> None:
    async def test(cluster: Cluster, launcher: SlowLauncher, nursery: trio.Nursery) -> None:
        await cluster.crash(0)
        assert not cluster.is_up(0)
        nursery.start_soon(cluster.restart, 0)
        nursery.start_soon(cluster.restart, 0)
        await trio.sleep(3 * LAUNCH_S)

        assert cluster.is_up(0)
        assert (len(launcher.launched), launcher.running) == (2, 1)

    run(test)


def test_a_crash_that_comes_while_a_node_returns_happens_after_it() -> None:
    async def test(cluster: Cluster, launcher: SlowLauncher, nursery: trio.Nursery) -> None:
        await cluster.crash(0)
        nursery.start_soon(cluster.restart, 0)
        await trio.sleep(LAUNCH_S / 2)
        await cluster.crash(0)
        assert (cluster.is_up(0), launcher.running) == (False, 0)
        await cluster.crash(0)  # It is down already.
        await cluster.restart(0)

        assert (cluster.is_up(0), launcher.running) == (True, 1)

    run(test)
