"""The command in processes of its own, which end with the test however that ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO, Any

from smartpubsub.cli.main import main

LOOPBACK = "/ip4/127.0.0.1/tcp/0"
WATCHDOG_S = 900
"""Far longer than anything takes: it ends what hangs, and is no measure of what is slow."""
PROGRAM = "import sys; from smartpubsub.cli.main import main; sys.exit(main())"


class Running:
    """A command that runs, and what it writes."""

    def __init__(
        self,
        *arguments: str | Path,
        environ: dict[str, str] | None = None,
        stdin: IO[bytes] | None = None,
        watchdog_s: float = WATCHDOG_S,
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *map(str, arguments)],
            stdin=stdin or subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
            text=True,
        )
        self._watchdog = threading.Timer(watchdog_s, self.process.kill)
        self._watchdog.start()
        self._errors = ""

    def line(self) -> str:
        """The next line of its output, empty if it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def wait_for_error(self, text: str) -> None:
        """Until it writes a line with a text to standard error."""
        assert self.process.stderr is not None
        while text not in (line := self.process.stderr.readline()):
            assert line, f"{text!r} never came, but: {self._errors}"
            self._errors += line
        self._errors += line

    def ended(self, with_signal: signal.Signals | None = None) -> tuple[int, str, str]:
        """Its exit code and what it has still written, after a signal if there is one."""
        if with_signal is not None:
            self.process.send_signal(with_signal)
        output, errors = self.process.communicate()
        self._watchdog.cancel()
        return self.process.returncode, output, self._errors + errors

    def kill(self) -> None:
        """End it without a warning."""
        self.process.kill()
        self.process.communicate()
        self._watchdog.cancel()


class Commands:
    """Starts commands, and remembers those that have to be ended."""

    def __init__(self, stack: ExitStack, watchdog_s: float) -> None:
        self._stack = stack
        self._watchdog_s = watchdog_s

    def start(
        self,
        *arguments: str | Path,
        environ: dict[str, str] | None = None,
        stdin: IO[bytes] | None = None,
    ) -> Running:
        """A command that goes on."""
        running = Running(*arguments, environ=environ, stdin=stdin, watchdog_s=self._watchdog_s)
        self._stack.callback(running.kill)
        return running

    def node(self, folder: Path, *arguments: str) -> RunningNode:
        """A node that is ready."""
        return RunningNode(self, folder, *arguments)

    def run(self, *arguments: str | Path) -> tuple[int, str, str]:
        """Exit code, output and errors of a command that ends by itself.

        It runs in this process, which saves the imports, unless it is a node, or its own commands
        write to the standard output.
        """
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or arguments[:2] == ("node", "run") or "--exec" in arguments:
            return self.start(*arguments).ended()
        return run_here(*map(str, arguments))

    def output(self, *arguments: str | Path) -> str:
        """What a command writes that succeeds."""
        code, output, errors = self.run(*arguments)
        assert code == 0, errors
        return output

    def until(self, text: str, *arguments: str | Path) -> None:
        """Repeat a command until it writes a text."""
        deadline = time.monotonic() + self._watchdog_s
        while text not in (output := self.output(*arguments)):
            assert time.monotonic() < deadline, f"{text!r} never came, but: {output}"


def run_here(*arguments: str) -> tuple[int, str, str]:
    """Run a command in this process."""

    def give_up(_number: int, _frame: object) -> None:
        raise AssertionError(f"{arguments} has not ended after {WATCHDOG_S} seconds")

    output, errors = (TextIOWrapper(BytesIO(), encoding="utf-8") for _ in range(2))
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(WATCHDOG_S)
    try:
        with redirect_stdout(output), redirect_stderr(errors):
            code = main(arguments)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return code, _written(output), _written(errors)


def _written(stream: TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, BytesIO)
    return stream.buffer.getvalue().decode()


class RunningNode:
    """A node that is ready."""

    def __init__(self, commands: Commands, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.running = commands.start(
            "node", "run", "--data", folder, "--listen", LOOPBACK, "--json", *arguments
        )
        line = self.running.line()
        assert line, self.running.ended()
        self.said: dict[str, Any] = json.loads(line)

    @property
    def peer_id(self) -> str:
        return str(self.said["peer_id"])

    @property
    def address(self) -> str:
        return str(self.said["addresses"][0])

    @property
    def listen(self) -> str:
        """Where it listens, for one that takes its place."""
        return self.address.partition("/p2p/")[0]


@contextmanager
def commands(watchdog_s: float = WATCHDOG_S) -> Iterator[Commands]:
    with ExitStack() as stack:
        yield Commands(stack, watchdog_s)
