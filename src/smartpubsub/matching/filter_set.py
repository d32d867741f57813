"""A set of filters, summarised: the fewest filters that let through what its members want."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from smartpubsub.matching.index import Index
from smartpubsub.predicates import Interval, Predicate, as_predicate
from smartpubsub.predicates.numbers import Number

# All of a filter but one range, and that range's name: filters that may merge have one in common.
_Gap: TypeAlias = tuple[str, frozenset[tuple[str, Interval | None]]]


class Changes(NamedTuple):
    """What has come to a summary and what has gone from it."""

    added: list[Predicate]
    removed: list[Predicate]


@dataclass(eq=False, slots=True)
class _Exposed:
    """A filter of the summary, and the members that it stands for."""

    number: int
    predicate: Predicate
    members: dict[int, None]
    equals: int
    """How many members are this very filter."""


class FilterSet:
    """Filters under integer keys, and the covering and exactly merged filters that stand for them.

    >>> filters = FilterSet()
    >>> filters.add(1, "surf/price[10,20]")
    >>> filters.add(2, "surf/price[20,30]")
    >>> filters.add(3, "surf/bali/price[12,13]")
    >>> [str(f) for f in filters.summary()]
    ['surf/price[10,30]']
    >>> filters.remove(1)
    >>> [str(f) for f in filters.summary()]
    ['surf/price[20,30]', 'surf/bali/price[12,13]']

    A point event matches the summary exactly when it matches a member; an event with an interval
    that spans several members may match the summary only. No filter of the summary covers another,
    and no two of them merge.
    """

    def __init__(self) -> None:
        self._members: dict[int, Predicate] = {}
        self._standing_for: dict[int, _Exposed] = {}
        self._exposed: dict[int, _Exposed] = {}
        self._index = Index()
        self._neighbours: dict[_Gap, list[tuple[Number, int]]] = {}
        self._next_number = 0
        self._added: dict[Predicate, None] = {}
        self._removed: dict[Predicate, None] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, key: int) -> bool:
        return key in self._members

    def add(self, key: int, predicate: Predicate | str) -> None:
        """Add a member; raise ValueError if the key is in use."""
        if key in self._members:
            raise ValueError(f"key {key} is in the set already; remove it first")
        predicate = as_predicate(predicate)
        self._members[key] = predicate
        self._stand_for(key, predicate)

    def remove(self, key: int) -> None:
        """Remove a member, and expose again what only it covered; raise KeyError if unknown."""
        predicate = self._members.pop(key)
        exposed = self._standing_for.pop(key)
        del exposed.members[key]
        exposed.equals -= predicate == exposed.predicate
        if exposed.equals:
            return  # Another member is this very filter, so it still stands for the rest.
        self._conceal(exposed)
        for left in exposed.members:
            self._stand_for(left, self._members[left])

    def summary(self) -> list[Predicate]:
        """The filters that stand for all members, oldest first."""
        return [exposed.predicate for exposed in self._exposed.values()]

    def changes(self) -> Changes:
        """What has changed in the summary since this was last asked."""
        changes = Changes(list(self._added), list(self._removed))
        self._added.clear()
        self._removed.clear()
        return changes

    def matches(self, event: Predicate | str) -> bool:
        """Whether the summary lets an event through."""
        return self._index.match_any(event)

    def _stand_for(self, key: int, predicate: Predicate) -> None:
        covering = self._index.covering(predicate)
        if covering:
            exposed = self._exposed[min(covering)]
            exposed.members[key] = None
            exposed.equals += predicate == exposed.predicate
            self._standing_for[key] = exposed
            return
        members: dict[int, None] = {}
        absorbed: int | None = -1
        merged = predicate
        while absorbed is not None:
            for covered in sorted(self._index.covered_by(merged)):
                members |= self._conceal(self._exposed[covered]).members
            absorbed = self._mergeable(merged)
            if absorbed is not None:
                other = self._conceal(self._exposed[absorbed])
                members |= other.members
                merged = merged.merge(other.predicate) or merged
        members[key] = None
        self._expose(merged, members)

    def _mergeable(self, predicate: Predicate) -> int | None:
        """A filter of the summary that merges with the given one."""
        for gap, interval in _gaps(predicate):
            neighbours = self._neighbours.get(gap, [])
            # They lie apart, in order: whatever touches the interval stands around this place.
            place = bisect_right(neighbours, interval.hi, key=lambda one: one[0])
            if place and self._interval(neighbours[place - 1], gap).hi >= interval.lo:
                return neighbours[place - 1][1]
        return None

    def _interval(self, neighbour: tuple[Number, int], gap: _Gap) -> Interval:
        interval = self._exposed[neighbour[1]].predicate.attributes[gap[0]]
        assert interval is not None
        return interval

    def _expose(self, predicate: Predicate, members: dict[int, None]) -> None:
        equals = sum(self._members[key] == predicate for key in members)
        exposed = _Exposed(self._next_number, predicate, members, equals)
        self._next_number += 1
        self._exposed[exposed.number] = exposed
        self._index.add(exposed.number, predicate)
        for gap, interval in _gaps(predicate):
            neighbours = self._neighbours.setdefault(gap, [])
            place = bisect_right(neighbours, interval.lo, key=lambda one: one[0])
            neighbours.insert(place, (interval.lo, exposed.number))
        for key in members:
            self._standing_for[key] = exposed
        if predicate in self._removed:
            del self._removed[predicate]
        else:
            self._added[predicate] = None

    def _conceal(self, exposed: _Exposed) -> _Exposed:
        del self._exposed[exposed.number]
        self._index.remove(exposed.number)
        for gap, interval in _gaps(exposed.predicate):
            neighbours = self._neighbours[gap]
            neighbours.remove((interval.lo, exposed.number))
            if not neighbours:
                del self._neighbours[gap]
        if exposed.predicate in self._added:
            del self._added[exposed.predicate]
        else:
            self._removed[exposed.predicate] = None
        return exposed


def _gaps(predicate: Predicate) -> list[tuple[_Gap, Interval]]:
    attributes = predicate.attributes
    return [
        ((name, frozenset(item for item in attributes.items() if item[0] != name)), interval)
        for name, interval in attributes.items()
        if interval is not None
    ]
