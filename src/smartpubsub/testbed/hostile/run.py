"""Whole nodes in real processes, under attack by peers in another process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import trio

from smartpubsub.errors import SmartPubSubError
from smartpubsub.sim.experiments.running import Progress, RunOptions
from smartpubsub.testbed.soak.run import Soak, SoakOptions

PROGRAM = "smartpubsub.testbed.hostile.program"


class Siege(Soak):
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

    async def _assemble(self) -> None:
        await super()._assemble()
        self._progress.say("attacking")
        self._rescuing.start_soon(self._attack)

    async def _attack(self) -> None:
        """Have all nodes attacked until the end."""
        nodes = range(self.options.nodes)
        addresses = [self._cluster.address_of(node) for node in nodes]
        command = [sys.executable, "-m", PROGRAM, ",".join(self.attacks), *addresses]
        process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._fail_at_end_of, process)
                await self._ends.wait()
                nursery.cancel_scope.cancel()
        finally:
            process.kill()

    async def _fail_at_end_of(self, process: trio.Process) -> None:
        status = await process.wait()
        raise SmartPubSubError(f"the process of the attackers has ended with status {status}")
