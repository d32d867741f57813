"""The progress of long work: a line that changes on a terminal, or lines in a log."""

from __future__ import annotations

import sys
import time
from typing import Self

import click

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.sim.experiments.running import Progress, Watched

SHOW_EVERY_S = 0.2
TELL_EVERY_S = 30.0
"""Without a terminal, a log gets a line at this interval."""
_CLEAR_LINE = "\r\x1b[K"


class ChangingLine:
    """One changing line on a terminal; elsewhere a line from time to time.

    It is a context manager, which removes the line when the work is over.
    """

    def __init__(self) -> None:
        self.is_terminal = sys.stderr.isatty()
        self._every_s = SHOW_EVERY_S if self.is_terminal else TELL_EVERY_S
        self._shown_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    @property
    def age_s(self) -> float:
        """How long ago the line changed."""
        return time.monotonic() - self._shown_at

    @property
    def is_due(self) -> bool:
        """Whether the line is old enough to be changed."""
        return self.age_s >= self._every_s

    def show(self, text: str) -> None:
        """Change the line."""
        click.echo(
            f"{_CLEAR_LINE}{text}" if self.is_terminal else text, err=True, nl=not self.is_terminal
        )
        self._shown_at = time.monotonic()

    def clear(self) -> None:
        """Make room for other text on a terminal."""
        if self.is_terminal:
            click.echo(_CLEAR_LINE, err=True, nl=False)


class StderrProgress(Progress):
    """The progress of a run. It is a context manager, as its line is."""

    def __init__(
        self, title: str = "", *, passed: str = "simulated", tells_stages: bool = False
    ) -> None:
        self._title = title
        self._passed = passed
        self._tells_stages = tells_stages
        self._stage = ""
        self._line = ChangingLine()
        self._shown_messages = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.clear()

    def say(self, stage: str) -> None:
        """Begin a new stage."""
        self._stage = stage
        if self._tells_stages and not self._line.is_terminal:
            click.echo(f"{self._title}{stage}", err=True)

    def tick(self, world: Watched) -> None:
        """Show the progress, at most every so often."""
        if self._line.is_due:
            self._line.show(self.line(world, self._line.age_s))
            self._shown_messages = world.sent_count

    def line(self, world: Watched, passed_s: float) -> str:
        """The next line, some seconds after the last one."""
        messages = world.sent_count
        rate = (messages - self._shown_messages) / passed_s
        return (
            f"{self._title}{self._stage}: {world.node_count:,} nodes,"
            f" {world.now / SECOND:,.1f} s {self._passed},"
            f" {messages:,} messages, {rate:,.0f} a second"
        )
