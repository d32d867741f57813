"""Real nodes in processes of their own, and the cost of an event.

Processor time of all processes together holds on a busy machine, unlike events per second.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from smartpubsub.errors import SmartPubSubError

GOSSIP = "py-libp2p gossipsub"
UNACKNOWLEDGED_MAX = 16
ANSWER_S_MAX = 600.0
"""The time limit of a command: many nodes join slowly on a busy machine."""
WARM_UP = 64
END_S_MAX = 10.0
ERROR_LINES = 12
"""How many of the last lines of a process that has ended an error contains."""


class Failure(NamedTuple):
    """What a process says when its node has failed: text, because not all errors can be sent."""

    reason: str


class Worker:
    """A process with one node, or none."""

    def __init__(self, commands: Connection, process: BaseProcess, errors: Path) -> None:
        self._commands = commands
        self._process = process
        self._errors = errors
        """The file that has the standard error of the process."""

    def send(self, name: str, *arguments: object) -> None:
        """Send a command."""
        with suppress(OSError):  # If the process has ended, `receive` says why.
            self._commands.send((name, *arguments))

    def receive(self) -> Any:
        """Wait for the result of the last command."""
        result: Any = Failure(f"it has not answered within {ANSWER_S_MAX:g} seconds")
        try:
            if self._commands.poll(ANSWER_S_MAX):
                result = self._commands.recv()
        except (EOFError, OSError):
            result = Failure(self._how_it_ended())
        if isinstance(result, Failure):
            raise SmartPubSubError(f"a node of the benchmark has failed: {result.reason}")
        return result

    def do(self, name: str, *arguments: object) -> Any:
        """Send a command, and wait for its result."""
        self.send(name, *arguments)
        return self.receive()

    def _how_it_ended(self) -> str:
        self._process.join(END_S_MAX)
        lines = self._errors.read_text(encoding="utf-8", errors="replace").splitlines()
        last = " | ".join(line.strip() for line in lines[-ERROR_LINES:])
        return f"its process has ended with code {self._process.exitcode}; it wrote: {last}"


@contextmanager
def workers(count: int) -> Iterator[list[Worker]]:
    """Start processes, forks of one that has imported everything, until the block is left."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["smartpubsub.bench.live_worker"])
    from smartpubsub.bench.live_worker import work

    with TemporaryDirectory() as folder, ExitStack() as stack:
        started = []
        for number in range(count):
            here, there = context.Pipe()
            errors = Path(folder) / str(number)
            errors.touch()
            process = context.Process(target=work, args=(there, str(errors)), daemon=True)
            process.start()
            there.close()
            stack.callback(process.join)
            stack.callback(process.kill)
            stack.enter_context(here)
            started.append(Worker(here, process, errors))
        yield started


class Outcome(NamedTuple):
    """The outcome of publishing at a rate."""

    acknowledged: list[int]
    """The numbers of the acknowledged events."""
    late: int
    refused: int
    took_s: float
    lost: int = 0
    """Acknowledged events that have not arrived at some subscriber."""


class LiveSystem:
    """A publisher and some subscribers of one system."""

    def __init__(self, name: str, members: Sequence[Worker], folder: Path) -> None:
        self.publisher, *self.subscribers = members
        self._members = members
        self._published = 0
        self._acknowledges = name != GOSSIP
        address = self.publisher.do("start", name, str(folder / "0"), None)
        self.addresses: list[str] = [address]
        # All at once, as they would come to a running network.
        for number, member in enumerate(self.subscribers, 1):
            member.send("start", name, str(folder / str(number)), address)
        for member in self.subscribers:
            self.addresses.append(member.receive())
        subject = self.publisher.do("prepare")
        for member in self.subscribers:
            member.send("subscribe", subject)
        for member in self.subscribers:
            member.receive()

    def publish(self, count: int, payload_bytes: int, at_once: int) -> list[float]:
        """Publish, and wait until all subscribers have all events; return the acknowledgements."""
        took: list[float] = []
        # A system without acknowledgements loses events that come faster than it handles them.
        step = count if self._acknowledges else UNACKNOWLEDGED_MAX
        for first in range(0, count, step):
            some = min(step, count - first)
            took += self.publisher.do("publish", some, payload_bytes, at_once)
            self._published += some
            for member in self.subscribers:
                member.send("until_arrived", self._published)
            for member in self.subscribers:
                member.receive()
        return took

    def publish_at(self, rate: float, seconds: float, at_once: int, deadline_s: float) -> Outcome:
        """Publish so many events per second, but wait while `at_once` are not acknowledged."""
        outcome = Outcome(*self.publisher.do("publish_at", rate, seconds, at_once, deadline_s))
        self._published += len(outcome.acknowledged)
        for member in self.subscribers:
            member.send("missing", outcome.acknowledged)
        return outcome._replace(lost=sum(member.receive() for member in self.subscribers))

    def memory_mb(self) -> float:
        """The memory of all nodes."""
        used: list[float] = [member.do("memory_mb") for member in self._members]
        return sum(used)

    def cpu_us(self, count: int, payload_bytes: int, at_once: int) -> float:
        """The processor time of all nodes for an event."""
        before = self._cpu_s()
        self.publish(count, payload_bytes, at_once)
        return (self._cpu_s() - before) / count * 1e6

    def delays(self, count: int) -> list[float]:
        """The latencies of the last events at the first subscriber."""
        found: list[float] = self.subscribers[0].do("delays", count)
        return found

    def _cpu_s(self) -> float:
        used: list[float] = [member.do("cpu_s") for member in self._members]
        return sum(used)


@contextmanager
def live(name: str, subscribers: int = 1) -> Iterator[LiveSystem]:
    """Run a publisher and subscribers, and remove their storage at the end."""
    with TemporaryDirectory() as folder, workers(1 + subscribers) as members:
        yield LiveSystem(name, members, Path(folder))
