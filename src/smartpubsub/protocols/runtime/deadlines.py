"""Many deadlines under one timer.

Most deadlines guard against a missing answer, and the component cancels them when it comes. So the
component keeps them, and the host has one timer for all of them, which may fire when none is due
any more. A component often sets many to the same time, while it handles one input.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

from smartpubsub.protocols.runtime.outbox import Outbox

Name = TypeVar("Name", bound=Hashable)

AT_ONCE_MAX = 64
"""How many deadlines `due` returns for one input; the timer fires again for the others."""
_STALE_MIN = 64


class Deadlines(Generic[Name]):
    """The deadlines of one kind. When the timer fires, `due` returns those that have come."""

    def __init__(self, outbox: Outbox[Any], timer: str) -> None:
        self._outbox = outbox
        self._timer = timer
        self._due_at: dict[Name, int] = {}
        self._at: dict[int, dict[Name, None]] = {}
        """By time, in the order in which they were set."""
        self._heap: list[int] = []
        """The times of deadlines; some of them have no deadline any more."""
        self._fires_at: int | None = None

    def __len__(self) -> int:
        return len(self._due_at)

    def set(self, name: Name, after_us: int) -> None:
        """Set a deadline, or move it if it is set."""
        at = self._outbox.now + after_us
        if name in self._due_at:
            self.cancel(name)
        self._due_at[name] = at
        names = self._at.get(at)
        if names is None:
            self._at[at] = {name: None}
            heappush(self._heap, at)
        else:
            names[name] = None
        if self._fires_at is None or at < self._fires_at:
            self._set_timer(at)

    def cancel(self, name: Name) -> None:
        """Forget a deadline, if it is set."""
        at = self._due_at.pop(name, None)
        if at is None:
            return
        names = self._at[at]
        del names[name]
        if not names:
            del self._at[at]
            if len(self._heap) > _STALE_MIN + 2 * len(self._at):
                self._heap = list(self._at)
                heapify(self._heap)

    def due(self) -> Iterator[Name]:
        """The deadlines that have come; each is removed as it is read. Read all of them."""
        self._fires_at = None
        for _ in range(AT_ONCE_MAX):
            first = self._first()
            if first is None or first > self._outbox.now:
                break
            name = next(iter(self._at[first]))
            self.cancel(name)
            yield name
        first = self._first()
        if first is not None and (self._fires_at is None or first < self._fires_at):
            self._set_timer(first)

    def _first(self) -> int | None:
        heap = self._heap
        while heap:
            if heap[0] in self._at:
                return heap[0]
            heappop(heap)
        return None

    def _set_timer(self, at: int) -> None:
        self._fires_at = at
        self._outbox.set_timer((self._timer,), max(0, at - self._outbox.now))

    def check(self) -> None:
        """Assert the invariants: a timer is set, no later than the first deadline."""
        first = self._first()
        assert first is None or (self._fires_at is not None and self._fires_at <= first)
        assert self._due_at == {name: at for at, names in self._at.items() for name in names}
        assert all(self._at.values())
        assert len(self._heap) <= _STALE_MIN + 2 * len(self._at) + AT_ONCE_MAX
