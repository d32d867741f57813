"""Processes that are killed: a node, a driver of Spark, and a worker of an executor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import smartpubsub
from smartpubsub import BlockingClient
from smartpubsub.bench.processes import descendants, parent_of
from smartpubsub.node.errors import NodeError
from tests.cli.running import Commands, Running, RunningNode

PATIENCE_S = 300
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""On little data, most of a program's time is Java's compiler."""

T = TypeVar("T")


class KilledNode:
    """A node in a process, which is started again at the same place."""

    def __init__(self, commands: Commands, folder: Path, *bootstrap: str) -> None:
        self._commands = commands
        self._bootstrap = [text for address in bootstrap for text in ("--bootstrap", address)]
        self.folder = folder
        self._node = RunningNode(commands, folder, *self._bootstrap)
        self.address = self._node.address

    def kill(self) -> None:
        """End the process without a warning, and start it again."""
        running: Running = self._node.running
        running.kill()
        self._node = RunningNode(self._commands, self.folder, *self._bootstrap)

    def ask(self, request: Callable[[BlockingClient], T]) -> T:
        """Make a request, again if the node is killed meanwhile."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with smartpubsub.connect(data=self.folder) as client:
                    return request(client)
            except NodeError:
                assert time.monotonic() < deadline, "the node does not come back"
                time.sleep(0.2)


class KilledDriver:
    """A Python program that runs Spark, with all its processes."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._log = log
        self._arguments = arguments
        self.start_count = 0
        self.start()

    def start(self) -> None:
        """Start it, or start it again."""
        self.start_count += 1
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "JDK_JAVA_OPTIONS": QUICK_JAVA},
            )

    def kill(self) -> None:
        """End it with its Java, without a warning."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_worker(self) -> bool:
        """End a Python process that runs tasks; return whether there was one."""
        return kill_last(pid for pid in descendants(self._process.pid) if is_worker(pid))

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition; start the program again if it ends."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if self._process.poll() is not None:
                self.start()
            assert time.monotonic() < deadline, self._log.read_text(errors="replace")[-4_000:]
            time.sleep(0.1)

    def end(self) -> None:
        """End it if it runs."""
        if self._process.poll() is None:
            self.kill()


def kill_executor(cluster: Sequence[int]) -> bool:
    """End an executor of a cluster; its worker starts another one.

    Return whether there was one.
    """
    started = [pid for process in cluster for pid in descendants(process)]
    return kill_last(pid for pid in started if b"ExecutorBackend" in command_of(pid))


def kill_last(pids: Iterable[int]) -> bool:
    """End the last of some processes without a warning; return whether there was one."""
    for pid in [*pids][-1:]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def command_of(pid: int) -> bytes:
    """The command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def is_worker(pid: int) -> bool:
    """Whether a process is one that runs tasks: a child of the daemon of Python workers."""
    return all(
        b"daemon" in command and b"pyspark.worker" in command
        for command in (command_of(pid), command_of(parent_of(pid) or 0))
    )


def each_once(found: Sequence[int], wanted: Sequence[int]) -> str:
    """What is wrong with numbers that should each be there once; empty if nothing is."""
    lost = sorted({*wanted} - {*found})
    twice = sorted({number for number in found if found.count(number) > 1})
    other = sorted({*found} - {*wanted})
    named = {"lost": lost, "twice": twice, "never published": other}
    return "; ".join(f"{name}: {numbers}" for name, numbers in named.items() if numbers)
