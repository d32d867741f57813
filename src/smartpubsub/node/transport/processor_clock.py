"""The processor time that a node has, used or not."""

from __future__ import annotations

import time
from pathlib import Path

import trio

_SCHEDULER = Path("/proc/thread-self/schedstat")
"""Linux tells the nanoseconds on a processor, those of waiting for one, and the turns."""


def starved_s() -> float:
    """The time that this thread has waited for a processor; 0 where the system does not tell."""
    try:
        return int(_SCHEDULER.read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


class ProcessorClock(trio.abc.Instrument):
    """Counts the processor time of this thread, and the time in which it had nothing to do.

    On a busy machine that is less than the time that passes.
    """

    def __init__(self) -> None:
        self.idle_s = 0.0
        """The time in which the event loop had nothing to do."""
        self._idle_since: float | None = None

    def now(self) -> float:
        """The time of this clock in seconds."""
        return time.thread_time() + self.idle_s

    def before_io_wait(self, timeout: float) -> None:
        """The loop has nothing to do until something happens, or for a time."""
        self._idle_since = time.perf_counter() if timeout > 0 else None

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002
        """Something has happened."""
        if self._idle_since is not None:
            self.idle_s += time.perf_counter() - self._idle_since
