"""The future events of a world in order: a calendar queue.

Entries are kept in slots of time, and a slot is sorted only when it begins. A heap of all entries
gives the same order, but each access touches memory all over the heap, which is slow in large
worlds.
"""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from smartpubsub.sim.kernel.world import Host

Entry: TypeAlias = "tuple[int, int, Host | None, int, Any]"
"""A time, a number that orders entries of the same time, the host, its incarnation, the event."""

# About a millisecond: even in a small world some node sends in that time.
_SLOT_BITS = 10


class Calendar:
    """Entries in the order of time, and at the same time in the order of their numbers."""

    def __init__(self) -> None:
        self._slots: dict[int, list[Entry]] = {}
        self._numbers: list[int] = []
        """The slots' own numbers, as a heap."""
        self._current: list[Entry] = []
        """The remaining entries of the slot that has begun, the last first."""
        self._current_number = -1

    def __len__(self) -> int:
        return len(self._current) + sum(map(len, self._slots.values()))

    def add(self, entry: Entry) -> None:
        """Add an entry."""
        number = entry[0] >> _SLOT_BITS
        slot = self._slots.get(number)
        if slot is not None:
            slot.append(entry)
        elif number > self._current_number:
            self._slots[number] = [entry]
            heappush(self._numbers, number)
        else:
            insort(self._current, entry, key=_from_the_end)

    def next(self, until: int) -> Entry | None:
        """Take the next entry out; None if there is none up to that time."""
        current = self._current
        if not current:
            if not self._numbers or self._numbers[0] << _SLOT_BITS > until:
                return None
            self._current_number = heappop(self._numbers)
            current = self._current = self._slots.pop(self._current_number)
            current.sort(reverse=True)
        return None if current[-1][0] > until else current.pop()


def _from_the_end(entry: Entry) -> tuple[int, int]:
    return -entry[0], -entry[1]
