"""What has happened and is not handled yet, in the order in which it happened."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class Inbox(Generic[T]):
    """A queue for one reader. Those who bring what came from afar wait while it is full."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._items: deque[T] = deque()
        self._has_items = trio.Event()
        self._has_room = trio.Event()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T) -> None:
        """Add what is bounded otherwise, and cannot wait."""
        self._items.append(item)
        self._has_items.set()

    async def put_when_there_is_room(self, item: T) -> None:
        """Add what others may bring any amount of."""
        while len(self._items) >= self._count_max:
            await self._has_room.wait()
        self.put(item)

    async def wait(self, deadline: float) -> None:
        """Until something is there, or it is a time on trio's clock."""
        if self._items:
            await trio.lowlevel.checkpoint()  # So that others get their turn however much there is.
        else:
            self._has_items = trio.Event()
            with trio.CancelScope(deadline=deadline):
                await self._has_items.wait()

    def take(self) -> T | None:
        """The first that is there, if any."""
        if not self._items:
            return None
        item = self._items.popleft()
        if len(self._items) < self._count_max and self._has_room.statistics().tasks_waiting:
            self._has_room.set()
            self._has_room = trio.Event()
        return item
