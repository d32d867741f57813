"""A clock that advances by a limited time for each round of the event loop.

On a busy machine a process may be suspended for seconds, or each round of its loop may take as
long. Messages have arrived meanwhile and are not read yet, but timeouts have passed by the wall
clock, and nodes would suspect each other. By this clock no round takes longer than a limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import trio

ROUND_S_MAX = 0.05


class PatientClock(trio.abc.Clock, trio.abc.Instrument):
    """A clock for trio's loop; it is also one of the loop's instruments."""

    def __init__(
        self,
        round_s_max: float = ROUND_S_MAX,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._round_s_max = round_s_max
        self._monotonic = monotonic
        self._passed_s = monotonic()
        """The time of this clock at the mark."""
        self._mark_s = self._passed_s
        """The mark: when the loop last began to wait or to work."""
        self._limit_s = round_s_max
        """How far the clock may advance from the mark."""

    def start_clock(self) -> None:
        """Start with the loop."""
        self._mark(self._round_s_max)

    def current_time(self) -> float:
        """The time in seconds."""
        return self._passed_s + min(self._monotonic() - self._mark_s, self._limit_s)

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """How long to wait until a time."""
        return deadline - self.current_time()

    def before_io_wait(self, timeout: float) -> None:
        """Mark that the loop begins to wait."""
        self._mark(timeout + self._round_s_max)

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002
        """Mark that the loop goes on."""
        self._mark(self._round_s_max)

    def _mark(self, limit_s: float) -> None:
        now = self._monotonic()
        self._passed_s += min(now - self._mark_s, self._limit_s)
        self._mark_s = now
        self._limit_s = limit_s
