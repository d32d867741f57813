"""The clock and the timers of a node."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from itertools import count

from smartpubsub.seam import Peer, Timer, TimerFired

MICROSECONDS = 1_000_000


class Clock:
    """A clock in microseconds that starts at the time of day and is monotonic from then on.

    So stored times are comparable after a restart.
    """

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._ahead_us: int | None = None

    def follow(self, seconds: Callable[[], float]) -> None:
        """Read the time from another function."""
        self._seconds = seconds

    def now(self) -> int:
        """The time in microseconds."""
        passed_us = int(self._seconds() * MICROSECONDS)
        if self._ahead_us is None:
            self._ahead_us = time.time_ns() // 1_000 - passed_us
        return passed_us + self._ahead_us


class Timers:
    """The timers that are set, in order of time."""

    def __init__(self) -> None:
        self._due_at: dict[Timer, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, Timer]] = []
        self._numbers = count()
        self._hasty: dict[Timer, None] = {}
        """Timers that may be early."""
        self._peers: dict[Timer, Peer] = {}
        """The peers that timers are charged to."""

    def __len__(self) -> int:
        return len(self._due_at)

    def set(self, timer: Timer, at: int, *, may_be_early: bool = False, peer: Peer = b"") -> None:
        """Set a timer, also if it was set to another time."""
        if timer in self._due_at:
            self.cancel(timer)
        if may_be_early:
            self._hasty[timer] = None
        if peer:
            self._peers[timer] = peer
        entry = (at, next(self._numbers))
        self._due_at[timer] = entry
        heapq.heappush(self._heap, (*entry, timer))
        if len(self._heap) > 2 * len(self._due_at) + 64:
            self._heap = [(*entry, timer) for timer, entry in self._due_at.items()]
            heapq.heapify(self._heap)

    def cancel(self, timer: Timer) -> None:
        """Forget a timer, if it is set."""
        self._due_at.pop(timer, None)
        self._hasty.pop(timer, None)
        self._peers.pop(timer, None)

    def clear(self) -> None:
        """Forget all timers."""
        self._due_at.clear()
        self._heap.clear()
        self._hasty.clear()
        self._peers.clear()

    def take_early(self) -> list[Timer]:
        """Remove the timers that may be early."""
        early = list(self._hasty)
        for timer in early:
            self.cancel(timer)
        return early

    @property
    def next_at(self) -> int | None:
        """When the first timer is due, if any is set."""
        self._forget_moved()
        return self._heap[0][0] if self._heap else None

    def is_due(self, now: int) -> bool:
        """Whether a timer is due."""
        next_at = self.next_at
        return next_at is not None and next_at <= now

    def take_due(self, now: int) -> TimerFired | None:
        """Remove the first timer that is due."""
        if not self.is_due(now):
            return None
        _, _, timer = heapq.heappop(self._heap)
        fired = TimerFired(timer, self._peers.get(timer, b""))
        self.cancel(timer)
        return fired

    def _forget_moved(self) -> None:
        while self._heap and self._due_at.get(self._heap[0][2]) != self._heap[0][:2]:
            heapq.heappop(self._heap)
