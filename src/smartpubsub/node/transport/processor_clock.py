"""The processor time that is available to a node."""

from __future__ import annotations

import time
from pathlib import Path

import trio

_SCHEDULER = Path("/proc/thread-self/schedstat")
"""Linux's file with the nanoseconds on a processor, those of waiting for one, and the slices."""


def starved_s() -> float:
    """The time that this thread has waited for a processor; 0 if the system does not report it."""
    try:
        return int(_SCHEDULER.read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


class ProcessorClock(trio.abc.Instrument):
    """Counts the processor time of this thread, and its idle time.

    On a busy machine it is slower than the wall clock.
    """

    def __init__(self) -> None:
        self.idle_s = 0.0
        """The time in which the event loop had nothing to do."""
        self._idle_since: float | None = None

    def now(self) -> float:
        """The time of this clock in seconds."""
        return time.thread_time() + self.idle_s

    def before_io_wait(self, timeout: float) -> None:
        """Begin to count idle time."""
        self._idle_since = time.perf_counter() if timeout > 0 else None

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002
        """End the idle time."""
        if self._idle_since is not None:
            self.idle_s += time.perf_counter() - self._idle_since
