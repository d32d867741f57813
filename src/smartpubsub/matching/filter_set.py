"""The summary of a set of filters: few filters that match what the members match."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from smartpubsub.matching.index import Index, as_key
from smartpubsub.predicates import Interval, Predicate, as_predicate
from smartpubsub.predicates.numbers import Number

# A filter without one of its ranges, and that range's name: filters that can merge share one.
_Gap: TypeAlias = tuple[str, frozenset[tuple[str, Interval | None]]]


class Changes(NamedTuple):
    """The filters that a summary has gained and lost."""

    added: list[Predicate]
    removed: list[Predicate]


@dataclass(eq=False, slots=True)
class _Exposed:
    """A filter of the summary, and the members that it stands for."""

    predicate: Predicate
    members: dict[int, None] = field(default_factory=dict)
    equals: int = 0
    """How many members equal this filter."""
    number: int = -1


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
        self._sizes: Counter[tuple[int, int]] = Counter()
        self._next_number = 0
        self._added: dict[Predicate, None] = {}
        self._removed: dict[Predicate, None] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, key: int) -> bool:
        return key in self._members

    def add(self, key: int, predicate: Predicate | str) -> None:
        """Add a member; raise ValueError if the key is in use."""
        key = as_key(key)
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
            return  # Another member equals this filter, so it still stands for the rest.
        self._conceal(exposed)
        for left in exposed.members:
            self._stand_for(left, self._members[left])

    def summary(self) -> list[Predicate]:
        """The filters that stand for all members, oldest first."""
        return [exposed.predicate for exposed in self._exposed.values()]

    def changes(self) -> Changes:
        """Return what changed in the summary since the last call."""
        changes = Changes(list(self._added), list(self._removed))
        self._added.clear()
        self._removed.clear()
        return changes

    def matches(self, event: Predicate | str) -> bool:
        """Whether the summary matches an event."""
        return self._index.match_any(event)

    def _stand_for(self, key: int, predicate: Predicate) -> None:
        covering = self._index.covering(predicate)
        if covering:
            exposed = self._exposed[min(covering)]
            exposed.members[key] = None
            exposed.equals += predicate == exposed.predicate
            self._standing_for[key] = exposed
            return
        merged, parts = self._absorb(predicate)
        # Members of the largest part stay where they are, which keeps long chains cheap.
        exposed = max(parts, key=lambda part: len(part.members), default=_Exposed(predicate))
        for part in parts:
            if part is not exposed:
                exposed.members |= part.members
                self._standing_for |= dict.fromkeys(part.members, exposed)
        exposed.members[key] = None
        self._standing_for[key] = exposed
        exposed.predicate = merged
        # If another member equalled this filter, it would have covered all the others.
        exposed.equals = int(merged == predicate)
        self._expose(exposed)

    def _absorb(self, predicate: Predicate) -> tuple[Predicate, list[_Exposed]]:
        """Merge a filter with all filters that it covers or touches, and remove those from the
        summary."""
        parts: list[_Exposed] = []
        while True:
            if self._may_cover_others(predicate):
                covered = sorted(self._index.covered_by(predicate))
                parts += [self._conceal(self._exposed[number]) for number in covered]
            mergeable = self._mergeable(predicate)
            if mergeable is None:
                return predicate, parts
            other = self._conceal(self._exposed[mergeable])
            parts.append(other)
            predicate = predicate.merge(other.predicate) or predicate

    def _may_cover_others(self, predicate: Predicate) -> bool:
        """Whether a search for covered filters is needed.

        It is not if no filter has more attributes or more ranges, and this one has at most one
        range: then the cheaper search for merges finds all covered filters.
        """
        attribute_count, range_count = _counts(predicate)
        return range_count > 1 or any(
            attributes > attribute_count or ranges > range_count
            for attributes, ranges in self._sizes
        )

    def _mergeable(self, predicate: Predicate) -> int | None:
        """A filter of the summary that merges with the given one."""
        for gap, interval in _gaps(predicate):
            neighbours = self._neighbours.get(gap, [])
            # The intervals are disjoint and sorted: those that touch this one are next to this
            # position.
            place = bisect_right(neighbours, interval.hi, key=_beginning)
            if place and self._interval(neighbours[place - 1], gap).hi >= interval.lo:
                return neighbours[place - 1][1]
        return None

    def _interval(self, neighbour: tuple[Number, int], gap: _Gap) -> Interval:
        interval = self._exposed[neighbour[1]].predicate.attributes[gap[0]]
        assert interval is not None
        return interval

    def _expose(self, exposed: _Exposed) -> None:
        predicate = exposed.predicate
        exposed.number = self._next_number
        self._next_number += 1
        self._exposed[exposed.number] = exposed
        self._index.add(exposed.number, predicate)
        self._sizes[_counts(predicate)] += 1
        for gap, interval in _gaps(predicate):
            neighbours = self._neighbours.setdefault(gap, [])
            place = bisect_right(neighbours, interval.lo, key=_beginning)
            neighbours.insert(place, (interval.lo, exposed.number))
        if predicate in self._removed:
            del self._removed[predicate]
        else:
            self._added[predicate] = None

    def _conceal(self, exposed: _Exposed) -> _Exposed:
        predicate = exposed.predicate
        del self._exposed[exposed.number]
        self._index.remove(exposed.number)
        self._sizes[_counts(predicate)] -= 1
        if not self._sizes[_counts(predicate)]:
            del self._sizes[_counts(predicate)]
        for gap, interval in _gaps(predicate):
            neighbours = self._neighbours[gap]
            # No two of them begin at the same number, or one would cover the other.
            del neighbours[bisect_right(neighbours, interval.lo, key=_beginning) - 1]
            if not neighbours:
                del self._neighbours[gap]
        if predicate in self._added:
            del self._added[predicate]
        else:
            self._removed[predicate] = None
        return exposed


def _counts(predicate: Predicate) -> tuple[int, int]:
    """How many attributes a filter has, and how many of them are ranges."""
    intervals = predicate.attributes.values()
    return len(intervals), sum(interval is not None for interval in intervals)


def _beginning(neighbour: tuple[Number, int]) -> Number:
    return neighbour[0]


def _gaps(predicate: Predicate) -> list[tuple[_Gap, Interval]]:
    attributes = predicate.attributes
    return [
        ((name, frozenset(item for item in attributes.items() if item[0] != name)), interval)
        for name, interval in attributes.items()
        if interval is not None
    ]
