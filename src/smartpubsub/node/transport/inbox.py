"""The queue of events that the core has not handled yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")

LATE_S_MIN = 0.002
"""A loop with a round below this time is not busy."""
GATHER_ROUNDS = 3


class Inbox(Generic[T]):
    """A queue with one reader. Tasks that add messages of peers wait while it is full."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._items: deque[T] = deque()
        self._since = 0.0
        """When the first item came, on trio's clock."""
        self._has_items = trio.Event()
        self._has_room = trio.Event()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T) -> None:
        """Add an item that is bounded elsewhere, without waiting."""
        if not self._items:
            self._since = trio.current_time()
        self._items.append(item)
        self._has_items.set()

    async def put_when_there_is_room(self, item: T) -> None:
        """Add an item that peers can cause any number of; wait while the queue is full."""
        while len(self._items) >= self._count_max:
            await self._has_room.wait()
        self.put(item)

    async def wait(self, deadline: float, gather_s_max: float = 0.0) -> None:
        """Wait for an item, or until a time on trio's clock.

        On a busy loop, wait some rounds longer: handling more items together costs less.
        """
        began_at = trio.current_time()
        if self._items:
            await (
                trio.lowlevel.checkpoint()
            )  # Other tasks get their turn however long the queue is.
        else:
            self._has_items = trio.Event()
            with trio.CancelScope(deadline=deadline):
                await self._has_items.wait()
        if self._items and gather_s_max:
            late_s = trio.current_time() - max(began_at, self._since)
            if late_s > LATE_S_MIN:
                await trio.sleep(min(GATHER_ROUNDS * late_s, gather_s_max))

    def keep(self, is_kept: Callable[[T], bool]) -> None:
        """Remove all other items."""
        self._items = deque(filter(is_kept, self._items))
        self._wake_if_there_is_room()

    def take(self) -> T | None:
        """Remove the first item, if there is one."""
        if not self._items:
            return None
        item = self._items.popleft()
        self._wake_if_there_is_room()
        return item

    def _wake_if_there_is_room(self) -> None:
        if len(self._items) < self._count_max and self._has_room.statistics().tasks_waiting:
            self._has_room.set()
            self._has_room = trio.Event()
