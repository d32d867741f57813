"""The coordinator's side of the processes of a testbed: the launcher, and the workers it starts."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trio

from smartpubsub.errors import SmartPubSubError
from smartpubsub.testbed.channel import Channel, ClosedError, pair, receive, send_now
from smartpubsub.testbed.messages import Command, Kill, Launch, Report, Setup

END_S_MAX = 30.0
"""How long the launcher may take to clean up before it is killed itself."""


class ProcessError(SmartPubSubError):
    """A process has ended unexpectedly."""


class Process:
    """A worker, and the nodes that run in it."""

    def __init__(self, id: int, end: socket.socket, *, is_shared: bool) -> None:
        self.id = id
        self.is_shared = is_shared
        self._channel = Channel(end)

    async def send(self, command: Command) -> None:
        """Send a command to the worker, if it still runs."""
        with suppress(ClosedError):
            await self._channel.send(command)

    async def next_report(self) -> Report | None:
        """The next report, or None if the worker has ended."""
        try:
            report: Report = await self._channel.receive()
        except ClosedError:
            return None
        return report

    def close(self) -> None:
        """Close the channel to the worker, which ends it."""
        self._channel.close()


class Launcher:
    """Starts and ends workers."""

    def __init__(self, end: socket.socket, folder: Path) -> None:
        self.folder = folder
        """The folder of the nodes' data."""
        self._end = end
        self._asking = trio.Lock()

    async def launch(self, setup: Setup) -> Process:
        """Start a worker."""
        own, other = pair()
        with other:
            id = await self._ask(Launch(setup), other)
        return Process(id, own, is_shared=setup.is_shared)

    async def kill(self, process: Process) -> None:
        """Kill a worker, and return when it has ended."""
        await self._ask(Kill(process.id))

    async def _ask(self, request: Launch | Kill, *along: socket.socket) -> int:
        def asked() -> int:
            socket.send_fds(self._end, [b"+"], [one.fileno() for one in along])
            send_now(self._end, request)
            answer: int = receive(self._end)
            return answer

        async with self._asking:
            try:
                return await trio.to_thread.run_sync(asked)
            except (ClosedError, OSError):
                raise ProcessError(
                    "the process that starts the nodes has ended; its output is above"
                ) from None


@contextmanager
def launcher() -> Iterator[Launcher]:
    """A launcher; at the end, all workers and their nodes' data are removed."""
    folder = Path(tempfile.mkdtemp(prefix="smartpubsub-testbed-"))
    own, other = pair()
    with other:
        program = [sys.executable, "-m", "smartpubsub.testbed.launcher"]
        started = subprocess.Popen(
            [*program, str(other.fileno()), str(folder)],
            pass_fds=[other.fileno()],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    with _Ending(started), own:
        yield Launcher(own, folder)


class _Ending:
    """Wait for a process that is about to end."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
