"""What a node has seen already: the newest few, and none for ever."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class Seen(Generic[Item]):
    """Ids of events and the like, each for a time, and at most so many."""

    def __init__(
        self, keep_us: int, count_max: int, on_lapsed: Callable[[Item], None] | None = None
    ) -> None:
        """Those that lapse with time are told; those that have to make room are not."""
        self.count_max = count_max
        self._on_lapsed = on_lapsed
        self._keep_us = keep_us
        self._since: dict[Item, int] = {}
        self._oldest_first: deque[Item] = deque()

    def __len__(self) -> int:
        return len(self._since)

    def __contains__(self, id: Item) -> bool:
        return id in self._since

    def add(self, id: Item, now: int) -> bool:
        """Whether an event is seen for the first time; from now on it is not."""
        if id in self._since:
            return False
        self._since[id] = now
        self._oldest_first.append(id)
        while self._oldest_first and (
            len(self._since) > self.count_max
            or self._since[self._oldest_first[0]] + self._keep_us <= now
        ):
            oldest = self._oldest_first.popleft()
            if self._since.pop(oldest) + self._keep_us <= now and self._on_lapsed is not None:
                self._on_lapsed(oldest)
        return True
