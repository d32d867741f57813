"""The summary of a set of filters: few filters that match the same events as the members."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from smartpubsub.matching.index import Index, as_key
from smartpubsub.matching.interval_union import IntervalUnion
from smartpubsub.predicates import Interval, Predicate, as_predicate

STEPS_PER_CHANGE = 6
"""How many steps towards a shorter summary each change of a member pays for."""
STEPS_MIN = 500
"""How many steps a new set can take at once, so that small sets always have a short summary."""
COMPARED_PER_STEP = 100
"""How many filters a search for covered filters compares or lists in the time of a step."""

_Gap: TypeAlias = tuple[str, frozenset[tuple[str, Interval | None]]]
"""A filter without one of its ranges, and that range's name: filters that can merge share one."""


class Changes(NamedTuple):
    """The filters that a summary has gained and lost."""

    added: list[Predicate]
    removed: list[Predicate]


@dataclass(eq=False, slots=True)
class _Candidate:
    """A filter after merging: it is in the summary, or another candidate covers it."""

    predicate: Predicate
    size: tuple[int, int]
    """How many attributes it has, and how many of them are ranges."""
    count: int = 0
    """How often it was put; 0 if it stays only for the filters below it."""
    number: int | None = None
    """Its number in the summary."""
    above: _Candidate | None = None
    """A filter that covers it; None if it is in the summary."""
    below: dict[Predicate, _Candidate] = field(default_factory=dict)
    """Filters that it covers."""


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
    that spans several members may match the summary only. Filters that are equal except for one
    range are merged, range by range in the order of names, and covered filters are left out.

    Making the summary shorter takes steps, and each change pays for a few of them. So n changes
    take at most O(n log n) steps and searches of the index. After changes that would cost more (a
    filter that covers thousands of others comes and goes), the summary is correct and longer than
    necessary until later changes have paid.
    """

    def __init__(self) -> None:
        self._members: dict[int, Predicate] = {}
        self._unions: dict[_Gap, IntervalUnion] = {}
        self._unmerged: dict[tuple[_Gap, Interval], int] = {}
        """Ranges that are not merged, because the steps did not suffice, and how often each."""
        self._candidates: dict[Predicate, _Candidate] = {}
        self._summary: dict[int, _Candidate] = {}
        self._unplaced: dict[int, None] = {}
        """Filters of the summary that another one may cover, or that may cover others."""
        self._index = Index()
        self._names: Counter[str] = Counter()
        self._sizes: Counter[tuple[int, int]] = Counter()
        self._next_number = 0
        self._steps = STEPS_MIN
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
        self._put(predicate, _range_names(predicate))
        self._shorten()

    def remove(self, key: int) -> None:
        """Remove a member, and expose the filters that only it covered; KeyError if unknown."""
        predicate = self._members.pop(key)
        self._take(predicate, _range_names(predicate))
        self._shorten()

    def summary(self) -> list[Predicate]:
        """The filters that stand for all members, oldest first."""
        return [candidate.predicate for candidate in self._summary.values()]

    def changes(self) -> Changes:
        """Return what changed in the summary since the last call."""
        changes = Changes(list(self._added), list(self._removed))
        self._added.clear()
        self._removed.clear()
        return changes

    def matches(self, event: Predicate | str) -> bool:
        """Whether the summary matches an event."""
        return self._index.match_any(event)

    def _shorten(self) -> None:
        """Add the steps of a change, and spend them on merges and places that are still due."""
        steps_max = STEPS_MIN + STEPS_PER_CHANGE * len(self._members)
        self._steps = min(self._steps + STEPS_PER_CHANGE, steps_max)
        while self._unmerged and self._can_afford(next(iter(self._unmerged))):
            gap, interval = next(iter(self._unmerged))
            predicate = _with_range(gap, interval)
            names = _range_names(predicate)
            self._take(predicate, names[names.index(gap[0]) :])
            self._put(predicate, names[names.index(gap[0]) :])
        while self._unplaced and self._steps > 0:
            number = next(iter(self._unplaced))
            del self._unplaced[number]
            candidate = self._summary[number]
            self._conceal(candidate)
            self._place(candidate)

    # --- merging: each stage merges along one range, and its components go to the next stage ---

    def _put(self, predicate: Predicate, names: list[str]) -> None:
        """Merge a filter along its ranges of these names."""
        if not names:
            self._put_candidate(predicate)
            return
        gap, interval = _without_range(predicate, names[0])
        if not self._can_afford((gap, interval)):
            self._unmerged[gap, interval] = self._unmerged.get((gap, interval), 0) + 1
            self._put(predicate, names[1:])
            return
        union = self._unions.setdefault(gap, IntervalUnion())
        self._steps -= max(0, union.touched(interval) - 1)
        self._pass_on(predicate, names, *union.add(interval))

    def _take(self, predicate: Predicate, names: list[str]) -> None:
        """Undo `_put`."""
        if not names:
            self._take_candidate(self._candidates[predicate])
            return
        gap, interval = _without_range(predicate, names[0])
        if (gap, interval) in self._unmerged:
            self._unmerged[gap, interval] -= 1
            if not self._unmerged[gap, interval]:
                del self._unmerged[gap, interval]
            self._take(predicate, names[1:])
            return
        union = self._unions[gap]
        changes = union.remove(interval)
        if not union:
            del self._unions[gap]
        self._pass_on(predicate, names, *changes)

    def _pass_on(
        self,
        predicate: Predicate,
        names: list[str],
        removed: list[Interval],
        added: list[Interval],
    ) -> None:
        attributes = predicate.attributes
        # New components first: they cover the old ones, so that lower filters need no new place.
        for interval in added:
            put = Predicate.unchecked({**attributes, names[0]: interval})
            self._put(put, names[1:])
        for interval in removed:
            taken = Predicate.unchecked({**attributes, names[0]: interval})
            self._take(taken, names[1:])

    def _can_afford(self, merge: tuple[_Gap, Interval]) -> bool:
        gap, interval = merge
        union = self._unions.get(gap)
        return union is None or union.touched(interval) - 1 <= self._steps

    # --- covering ---

    def _put_candidate(self, predicate: Predicate) -> None:
        candidate = self._candidates.get(predicate)
        if candidate is None:
            candidate = self._candidates[predicate] = _Candidate(predicate, _size(predicate))
            self._place(candidate)
        candidate.count += 1

    def _take_candidate(self, candidate: _Candidate) -> None:
        candidate.count -= 1
        if candidate.count:
            return
        if candidate.above is not None:
            # As long as there are filters below it, it stays: they need no new place.
            self._forget_unused(candidate)
            return
        self._conceal(candidate)
        del self._candidates[candidate.predicate]
        left = list(candidate.below.values())
        while left:
            lower = left.pop()
            lower.above = None
            if lower.count:
                self._place(lower)
            else:
                left += lower.below.values()
                del self._candidates[lower.predicate]

    def _forget_unused(self, candidate: _Candidate) -> None:
        while candidate.above is not None and not candidate.count and not candidate.below:
            del self._candidates[candidate.predicate]
            del candidate.above.below[candidate.predicate]
            candidate = candidate.above

    def _place(self, candidate: _Candidate) -> None:
        """Put a filter below one that covers it; else into the summary, above those it covers."""
        if self._steps < 1:
            self._unplaced[self._expose(candidate)] = None
            return
        self._steps -= 1
        covering = self._index.covering(candidate.predicate)
        if covering:
            _put_below(self._summary[min(covering)], candidate)
            return
        if self._may_cover_others(*candidate.size):
            self._cover_others(candidate)
        self._expose(candidate)

    def _cover_others(self, candidate: _Candidate) -> None:
        """Put the filters of the summary that this one covers below it."""
        # The search may cost more steps than are left; it starts only if some are left.
        compared = min(map(self._names.__getitem__, candidate.predicate.attributes))
        covered = self._index.covered_by(candidate.predicate) if compared else []
        self._steps -= (compared + len(covered)) // COMPARED_PER_STEP
        for number in sorted(covered):
            if self._steps < 1:
                self._unplaced[number] = None
                continue
            self._steps -= 1
            lower = self._summary[number]
            self._conceal(lower)
            _put_below(candidate, lower)

    def _may_cover_others(self, attribute_count: int, range_count: int) -> bool:
        """Whether a search for covered filters is needed.

        It is not if no filter has more attributes or more ranges, and this one has at most one
        range: then every filter that it covers is already merged with it.
        """
        return range_count > 1 or any(
            attributes > attribute_count or ranges > range_count
            for attributes, ranges in self._sizes
        )

    def _expose(self, candidate: _Candidate) -> int:
        predicate = candidate.predicate
        candidate.number = number = self._next_number
        self._next_number += 1
        self._summary[number] = candidate
        self._index.add(number, predicate)
        self._sizes[candidate.size] += 1
        self._names.update(predicate.attributes.keys())
        if predicate in self._removed:
            del self._removed[predicate]
        else:
            self._added[predicate] = None
        return number

    def _conceal(self, candidate: _Candidate) -> None:
        predicate, number = candidate.predicate, candidate.number
        assert number is not None
        candidate.number = None
        del self._summary[number]
        self._unplaced.pop(number, None)
        self._index.remove(number)
        self._sizes[candidate.size] -= 1
        if not self._sizes[candidate.size]:
            del self._sizes[candidate.size]
        for name in predicate.attributes:
            self._names[name] -= 1
            if not self._names[name]:
                del self._names[name]
        if predicate in self._added:
            del self._added[predicate]
        else:
            self._removed[predicate] = None


def _put_below(above: _Candidate, candidate: _Candidate) -> None:
    above.below[candidate.predicate] = candidate
    candidate.above = above


def _size(predicate: Predicate) -> tuple[int, int]:
    intervals = predicate.attributes.values()
    return len(intervals), sum(interval is not None for interval in intervals)


def _range_names(predicate: Predicate) -> list[str]:
    attributes = predicate.attributes
    return sorted(name for name, interval in attributes.items() if interval is not None)


def _without_range(predicate: Predicate, name: str) -> tuple[_Gap, Interval]:
    attributes = predicate.attributes
    interval = attributes[name]
    assert interval is not None
    return (name, frozenset(item for item in attributes.items() if item[0] != name)), interval


def _with_range(gap: _Gap, interval: Interval) -> Predicate:
    name, others = gap
    return Predicate.unchecked(dict(sorted([*others, (name, interval)], key=lambda item: item[0])))
