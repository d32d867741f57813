"""A node's clock, and the timers that are set by it."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from itertools import count

from smartpubsub.seam import Timer

MICROSECONDS = 1_000_000


class Clock:
    """Microseconds: the time of day when it is first asked, and from then on by another clock.

    So it is never set back or ahead, and times that a node has stored mean something to it when it
    is started again.
    """

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._ahead_us: int | None = None

    def now(self) -> int:
        """What time it is."""
        passed_us = int(self._seconds() * MICROSECONDS)
        if self._ahead_us is None:
            self._ahead_us = time.time_ns() // 1_000 - passed_us
        return passed_us + self._ahead_us


class Timers:
    """Timers that are set, in the order in which they are due."""

    def __init__(self) -> None:
        self._due_at: dict[Timer, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, Timer]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._due_at)

    def set(self, timer: Timer, at: int) -> None:
        """Have a timer fire at a time, also if it was set to another."""
        entry = (at, next(self._numbers))
        self._due_at[timer] = entry
        heapq.heappush(self._heap, (*entry, timer))
        if len(self._heap) > 2 * len(self._due_at) + 64:
            self._heap = [(*entry, timer) for timer, entry in self._due_at.items()]
            heapq.heapify(self._heap)

    def cancel(self, timer: Timer) -> None:
        """Forget a timer, if it is set."""
        self._due_at.pop(timer, None)

    @property
    def next_at(self) -> int | None:
        """When the first timer is due, if any is set."""
        self._forget_moved()
        return self._heap[0][0] if self._heap else None

    def is_due(self, now: int) -> bool:
        """Whether a timer's time has come."""
        next_at = self.next_at
        return next_at is not None and next_at <= now

    def take_due(self, now: int) -> Timer | None:
        """The first timer whose time has come, which is not set any more then."""
        if not self.is_due(now):
            return None
        _, _, timer = heapq.heappop(self._heap)
        del self._due_at[timer]
        return timer

    def _forget_moved(self) -> None:
        while self._heap and self._due_at.get(self._heap[0][2]) != self._heap[0][:2]:
            heapq.heappop(self._heap)
