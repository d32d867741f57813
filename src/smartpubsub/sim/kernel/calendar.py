"""What is going to happen, in order: a calendar queue.

Things are put down in slots of time and sorted only when their slot begins. A heap of all of them
does the same, but looks at things all over the memory whenever it is touched, and the more nodes a
world has the more that costs.
"""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from smartpubsub.sim.kernel.world import Host

Entry: TypeAlias = "tuple[int, int, Host | None, int, Any]"
"""A time, a number by which things at the same time are ordered, and what is to happen to whom."""

# About a millisecond, in which the nodes of a small world send something, too.
_SLOT_BITS = 10


class Calendar:
    """Entries, the earliest first, and of those at the same time the one with the lowest number."""

    def __init__(self) -> None:
        self._slots: dict[int, list[Entry]] = {}
        self._numbers: list[int] = []
        """The slots' own numbers, as a heap."""
        self._current: list[Entry] = []
        """What is left of the slot that has begun, the last first."""
        self._current_number = -1

    def __len__(self) -> int:
        return len(self._current) + sum(map(len, self._slots.values()))

    def add(self, entry: Entry) -> None:
        """Put something down."""
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
        """Take the next thing out; None if there is nothing up to that time."""
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
