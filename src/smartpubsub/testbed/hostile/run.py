"""Whole nodes in real processes, under attack by peers in another process."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence

import trio
from trio_typing import TaskStatus

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.sim.experiments.running import Progress, RunOptions
from smartpubsub.testbed.soak.run import Soak, SoakOptions

PROGRAM = "smartpubsub.testbed.hostile.program"
PUBLISHING_US_MAX = 2 * MINUTE
"""How long to wait for open publishes: far longer than a publish waits for its acknowledgement."""


class HostileRun(Soak):
    """A soak without faults of the nodes, but with attackers."""

    def __init__(
        self,
        options: RunOptions,
        wanted: SoakOptions,
        attacks: Sequence[str],
        progress: Progress | None = None,
    ) -> None:
        super().__init__(options, wanted, progress)
        self.attacks = tuple(attacks)
        self.attackers_cpu_s = 0.0
        """The processor time of the attackers."""
        self.load = 0.0
        """The load average of the last minute, at the end."""

    async def _assemble(self) -> None:
        await super()._assemble()
        self._progress.say("attacking")
        await self._rescuing.start(self._attack)
        self.began_us = self.now

    async def _attack(self, task_status: TaskStatus[None]) -> None:
        """Attack all nodes until the end; report the start when all attacks have begun."""
        nodes = range(self.options.nodes)
        addresses = [self._cluster.address_of(node) for node in nodes]
        command = [sys.executable, "-m", PROGRAM, ",".join(self.attacks), *addresses]
        process = await trio.lowlevel.open_process(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._fail_at_end_of, process)
                await process.stdout.receive_some(1)
                task_status.started()
                await self._ends.wait()
                nursery.cancel_scope.cancel()
        finally:
            self.load = os.getloadavg()[0]
            before_s = _ended_cpu_s()
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
            self.attackers_cpu_s = _ended_cpu_s() - before_s

    async def _run_until_quiet(self) -> None:
        # The publishes still in flight are the slowest.
        await self._wait(lambda: not self._is_something_open(), PUBLISHING_US_MAX)
        await super()._run_until_quiet()

    async def _fail_at_end_of(self, process: trio.Process) -> None:
        status = await process.wait()
        raise SmartPubSubError(f"the process of the attackers has ended with status {status}")


def _ended_cpu_s() -> float:
    """The processor time of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
