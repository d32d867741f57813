"""Many deadlines under one timer.

Most deadlines guard against a missing answer and are cancelled when it comes. So they stay in the
component, and the host has one timer for all of them, which may fire when nothing is due any more.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

from smartpubsub.protocols.runtime.outbox import Outbox

Name = TypeVar("Name", bound=Hashable)

AT_ONCE_MAX = 64
"""How many deadlines are handled in one turn; the others follow in the next."""
_STALE_MIN = 64


class Deadlines(Generic[Name]):
    """The deadlines of one kind. When the timer fires, `due` gives those that have come."""

    def __init__(self, outbox: Outbox[Any], timer: str) -> None:
        self._outbox = outbox
        self._timer = timer
        self._due_at: dict[Name, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, Name]] = []
        """With entries that were cancelled or moved."""
        self._number = 0
        """Deadlines of one time are in the order in which they were set."""
        self._fires_at: int | None = None

    def __len__(self) -> int:
        return len(self._due_at)

    def set(self, name: Name, after_us: int) -> None:
        """Set a deadline, also if it was set to another time."""
        at = self._outbox.now + after_us
        self._number += 1
        self._due_at[name] = at, self._number
        heappush(self._heap, (at, self._number, name))
        if self._fires_at is None or at < self._fires_at:
            self._set_timer(at)
        if len(self._heap) > _STALE_MIN + 2 * len(self._due_at):
            self._forget_stale()

    def cancel(self, name: Name) -> None:
        """Forget a deadline, if it is set."""
        is_set = self._due_at.pop(name, None) is not None
        if is_set and len(self._heap) > _STALE_MIN + 2 * len(self._due_at):
            self._forget_stale()

    def _forget_stale(self) -> None:
        self._heap = [(*entry, name) for name, entry in self._due_at.items()]
        heapify(self._heap)

    def due(self) -> Iterator[Name]:
        """The deadlines that have come, each removed when its turn comes; read to the end."""
        self._fires_at = None
        for _ in range(AT_ONCE_MAX):
            first = self._first()
            if first is None or first[0] > self._outbox.now:
                break
            heappop(self._heap)
            del self._due_at[first[2]]
            yield first[2]
        first = self._first()
        if first is not None and (self._fires_at is None or first[0] < self._fires_at):
            self._set_timer(first[0])

    def _first(self) -> tuple[int, int, Name] | None:
        heap = self._heap
        while heap:
            at, number, name = heap[0]
            if self._due_at.get(name) == (at, number):
                return heap[0]
            heappop(heap)
        return None

    def _set_timer(self, at: int) -> None:
        self._fires_at = at
        self._outbox.set_timer((self._timer,), max(0, at - self._outbox.now))

    def check(self) -> None:
        """Assert the invariants: a timer is set, no later than the first deadline."""
        first = self._first()
        assert first is None or (self._fires_at is not None and self._fires_at <= first[0])
        assert len(self._heap) <= _STALE_MIN + 2 * len(self._due_at) + AT_ONCE_MAX
