"""A set that remembers the newest ids for a limited time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class Seen(Generic[Item]):
    """Ids, each kept for a time, and at most a given number of them.

    A time without any calls counts as half of that time at most: the process may have been stopped,
    and copies of what it saw before may still be in its queues.
    """

    def __init__(
        self, keep_us: int, count_max: int, on_lapsed: Callable[[Item], None] | None = None
    ) -> None:
        """`on_lapsed` is called with each id that expires, and not with ids that make room."""
        self.count_max = count_max
        self._on_lapsed = on_lapsed
        self._keep_us = keep_us
        self._called_at: int | None = None
        self._skipped_us = 0
        """The time that does not count."""
        self._since: dict[Item, int] = {}
        self._oldest_first: deque[Item] = deque()

    def __len__(self) -> int:
        return len(self._since)

    def __contains__(self, id: Item) -> bool:
        return id in self._since

    def add(self, id: Item, now: int) -> bool:
        """Add an id; return whether it is new."""
        if now != self._called_at:
            self._count_time(now)
        now -= self._skipped_us
        since, oldest_first = self._since, self._oldest_first
        if id in since:
            return False
        since[id] = now
        oldest_first.append(id)
        while len(since) > self.count_max or since[oldest_first[0]] + self._keep_us <= now:
            oldest = oldest_first.popleft()
            has_lapsed = since.pop(oldest) + self._keep_us <= now
            if has_lapsed and self._on_lapsed is not None:
                self._on_lapsed(oldest)
            if not oldest_first:
                break
        return True

    def _count_time(self, now: int) -> None:
        if self._called_at is not None:
            self._skipped_us += max(0, now - self._called_at - self._keep_us // 2)
        self._called_at = now
