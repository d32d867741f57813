"""A set that remembers the newest ids for a limited time."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)


class CountedTime:
    """The time that counts against ids that are kept for a time.

    A period without any calls counts as at most half of that time: the process may have been
    stopped, and copies of earlier ids may still be in its queues.
    """

    def __init__(self, keep_us: int) -> None:
        self._gap_us_max = keep_us // 2
        self._called_at: int | None = None
        self._skipped_us = 0

    def at(self, now: int) -> int:
        """The time of an input, less the time that does not count."""
        if now != self._called_at:
            if self._called_at is not None:
                self._skipped_us += max(0, now - self._called_at - self._gap_us_max)
            self._called_at = now
        return now - self._skipped_us


class Seen(dict[Item, int]):
    """Ids, each kept for a time (`CountedTime`), and at most a given number of them.

    The values are the times of addition. Only `add` changes the dictionary.
    """

    def __init__(self, keep_us: int, count_max: int) -> None:
        super().__init__()
        self.count_max = count_max
        self._keep_us = keep_us
        self._time = CountedTime(keep_us)
        self._oldest_first: deque[Item] = deque()

    def add(self, id: Item, now: int) -> bool:
        """Add an id; return whether it is new."""
        now = self._time.at(now)
        if id in self:
            return False
        self[id] = now
        oldest_first = self._oldest_first
        oldest_first.append(id)
        while len(self) > self.count_max or self[oldest_first[0]] + self._keep_us <= now:
            del self[oldest_first.popleft()]
            if not oldest_first:
                break
        return True
