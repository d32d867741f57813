"""The progress of a run, on a terminal."""

from __future__ import annotations

import sys
import time

import click

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.sim.experiments.running import Progress, Watched

SHOW_EVERY_S = 0.2
TELL_EVERY_S = 30.0
"""Without a terminal, a log gets a line at this interval."""
_CLEAR_LINE = "\r\x1b[K"


class StderrProgress(Progress):
    """One changing line on a terminal; elsewhere a line from time to time.

    It is a context manager, which removes the line when the run is over.
    """

    def __init__(
        self, title: str = "", *, passed: str = "simulated", tells_stages: bool = False
    ) -> None:
        self._title = title
        self._passed = passed
        self._tells_stages = tells_stages
        self._stage = ""
        self._is_terminal = sys.stderr.isatty()
        self._every_s = SHOW_EVERY_S if self._is_terminal else TELL_EVERY_S
        self._shown_at = time.monotonic()
        self._shown_messages = 0

    def __enter__(self) -> StderrProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_terminal:
            click.echo(_CLEAR_LINE, err=True, nl=False)

    def say(self, stage: str) -> None:
        """Begin a new stage."""
        self._stage = stage
        if self._tells_stages and not self._is_terminal:
            click.echo(f"{self._title}{stage}", err=True)

    def tick(self, world: Watched) -> None:
        """Show the progress, at most every so often."""
        now = time.monotonic()
        if now - self._shown_at < self._every_s:
            return
        line = self.line(world, now - self._shown_at)
        if self._is_terminal:
            click.echo(f"{_CLEAR_LINE}{line}", err=True, nl=False)
        else:
            click.echo(line, err=True)
        self._shown_at, self._shown_messages = now, world.sent_count

    def line(self, world: Watched, passed_s: float) -> str:
        """The next line, some seconds after the last one."""
        messages = world.sent_count
        rate = (messages - self._shown_messages) / passed_s
        return (
            f"{self._title}{self._stage}: {world.node_count:,} nodes,"
            f" {world.now / SECOND:,.1f} s {self._passed},"
            f" {messages:,} messages, {rate:,.0f} a second"
        )
