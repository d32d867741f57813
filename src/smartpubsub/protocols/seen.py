"""A set that remembers the newest ids for a limited time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)


class Seen(dict[Item, int]):
    """Ids, each kept for a time, and at most a given number of them.

    A period without any calls counts as at most half of that time: the process may have been
    stopped, and copies of earlier ids may still be in its queues.

    The values are the times of addition, less the time that does not count. Only `add` changes the
    dictionary.
    """

    def __init__(
        self, keep_us: int, count_max: int, on_lapsed: Callable[[Item], None] | None = None
    ) -> None:
        """`on_lapsed` is called with each id that expires, not with ids evicted for others."""
        super().__init__()
        self.count_max = count_max
        self._on_lapsed = on_lapsed
        self._keep_us = keep_us
        self._called_at: int | None = None
        self._skipped_us = 0
        """The time that does not count."""
        self._oldest_first: deque[Item] = deque()

    def add(self, id: Item, now: int) -> bool:
        """Add an id; return whether it is new."""
        if now != self._called_at:
            self._count_time(now)
        if id in self:
            return False
        now -= self._skipped_us
        self[id] = now
        oldest_first = self._oldest_first
        oldest_first.append(id)
        while len(self) > self.count_max or self[oldest_first[0]] + self._keep_us <= now:
            oldest = oldest_first.popleft()
            has_lapsed = self.pop(oldest) + self._keep_us <= now
            if has_lapsed and self._on_lapsed is not None:
                self._on_lapsed(oldest)
            if not oldest_first:
                break
        return True

    def _count_time(self, now: int) -> None:
        if self._called_at is not None:
            self._skipped_us += max(0, now - self._called_at - self._keep_us // 2)
        self._called_at = now
