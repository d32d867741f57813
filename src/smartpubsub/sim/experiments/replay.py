"""Repeats a run, to show the rows around a violation."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.sim.experiments.running import Progress, Watched
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.traces.trace import Row

_AFTERWARDS_US = 10 * SECOND
"""How long the run goes on after the violation."""


class SeenEnoughError(Exception):
    """Raised to end a run after the violation."""


class Window:
    """A sink that keeps the rows around a violation that concern its node or event."""

    def __init__(self, violation: Violation, before: int, after: int) -> None:
        self._violation = violation
        self._before: deque[Row] = deque(maxlen=before)
        self._then: list[Row] = []
        self._then_max = before
        self._after: list[Row] = []
        self._after_max = after

    def __call__(self, rows: Sequence[Row]) -> None:
        """Add rows, many at a time."""
        for row in rows:
            if not self._concerns(row):
                continue
            if row.at_us < self._violation.at_us:
                self._before.append(row)
            elif row.at_us == self._violation.at_us:
                # A node may send to hundreds of peers at one moment; the rows before give the
                # reason.
                if len(self._then) < self._then_max:
                    self._then.append(row)
            elif len(self._after) < self._after_max:
                self._after.append(row)

    def rows(self) -> list[Row]:
        """The kept rows, in the order of time."""
        return [*self._before, *self._then, *self._after]

    def _concerns(self, row: Row) -> bool:
        node, what = self._violation.node, self._violation.what
        return node in (row.node, row.peer) or (row.event != "" and row.event in what)


class UntilSeen(Progress):
    """Ends a run a while after a violation, and passes progress on until then."""

    def __init__(self, violation: Violation, shown: Progress) -> None:
        self._until_us = violation.at_us + _AFTERWARDS_US
        self._shown = shown

    def say(self, stage: str) -> None:
        """Begin a new stage."""
        self._shown.say(stage)

    def tick(self, world: Watched) -> None:
        """Show progress, or end the run."""
        self._shown.tick(world)
        if world.now >= self._until_us:
            raise SeenEnoughError


def first_violation(violations: Sequence[Violation]) -> Violation | None:
    """The earliest violation."""
    return min(violations, key=lambda violation: violation.at_us, default=None)
