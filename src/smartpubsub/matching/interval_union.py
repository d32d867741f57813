"""The connected components of a union of closed intervals, as intervals come and go.

A search tree of all bounds counts the intervals that begin and end in each subtree, so that the end
of a component is found without visiting its intervals. A subtree that has become too deep is
rebuilt (a scapegoat tree): a change takes amortised O(log n) time, for any sequence of changes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from math import inf, log2
from typing import NamedTuple

from smartpubsub.predicates import Interval
from smartpubsub.predicates.numbers import Number

_BALANCE = 0.65
"""The largest share of a subtree's bounds on one side of it."""
_DEPTH_FACTOR = -1 / log2(_BALANCE)
_DEPTH_MIN = 4
_UNUSED_MIN = 16
"""How many unused bounds a tree may have before it is rebuilt without them."""


class ComponentChanges(NamedTuple):
    """The components that a change has removed and added."""

    removed: list[Interval]
    added: list[Interval]


class _Bound:
    """A number at which intervals begin or end, and the sums of the subtree below it."""

    __slots__ = ("at", "begin", "end", "left", "lowest", "right", "size", "total", "used")

    def __init__(self, at: Number) -> None:
        self.at = at
        self.begin = self.end = 0
        """How many intervals begin and end here."""
        self.left = self.right = _LEAF
        self.size = 1
        self.used = 0
        """Bounds of the subtree at which an interval begins or ends."""
        self.total = 0
        """Intervals that begin in the subtree, less those that end in it."""
        self.lowest = 0.0
        """The lowest number of open intervals after a bound, if none is open before the subtree."""

    def sum_up(self) -> None:
        left, right = self.left, self.right
        here = left.total + self.begin - self.end
        self.total = here + right.total
        self.lowest = min(left.lowest, here, here + right.lowest)
        self.size = left.size + right.size + 1
        self.used = left.used + right.used + (1 if self.begin or self.end else 0)


_LEAF: _Bound = object.__new__(_Bound)
_LEAF.size = _LEAF.used = _LEAF.total = 0
_LEAF.lowest = inf


class IntervalUnion:
    """Closed intervals, also equal ones, and the components of their union in order."""

    def __init__(self) -> None:
        self._root = _LEAF
        self._unsorted: list[Interval] | None = []
        """All intervals, until one is removed: only then the tree is needed."""
        self._lo: list[Number] = []
        self._hi: list[Number] = []
        """The bounds of the components."""

    def __bool__(self) -> bool:
        return bool(self._lo)

    def components(self) -> list[Interval]:
        """All components, in order."""
        return list(map(Interval, self._lo, self._hi))

    def touched(self, interval: Interval) -> int:
        """How many components an interval touches."""
        return bisect_right(self._lo, interval.hi) - bisect_left(self._hi, interval.lo)

    def add(self, interval: Interval) -> ComponentChanges:
        """Add an interval; it joins the components that it touches."""
        if self._unsorted is None:
            self._count(interval, 1)
        else:
            self._unsorted.append(interval)
        first, beyond = bisect_left(self._hi, interval.lo), bisect_right(self._lo, interval.hi)
        joined = interval
        if first < beyond:
            joined = interval.hull(Interval(self._lo[first], self._hi[beyond - 1]))
        return self._replace(first, beyond, [joined])

    def remove(self, interval: Interval) -> ComponentChanges:
        """Remove an interval that was added; its component may come apart."""
        if self._unsorted == [interval]:
            self._unsorted = []
            return self._replace(0, 1, [])
        self._count(interval, -1)
        place = bisect_right(self._lo, interval.lo) - 1
        parts = []
        begin = _first_used(self._root, self._lo[place])
        while begin is not None and begin <= self._hi[place]:
            end = _first_closed(self._root, begin, 0)
            assert end is not None
            parts.append(Interval(begin, end))
            begin = _first_used(self._root, end, is_beyond=True)
        changes = self._replace(place, place + 1, parts)
        if self._root.size - self._root.used > max(_UNUSED_MIN, self._root.used):
            self._root = _rebuilt(self._root)
        return changes

    def _replace(self, first: int, beyond: int, by: list[Interval]) -> ComponentChanges:
        before = list(map(Interval, self._lo[first:beyond], self._hi[first:beyond]))
        if before == by:
            return ComponentChanges([], [])
        self._lo[first:beyond] = [interval.lo for interval in by]
        self._hi[first:beyond] = [interval.hi for interval in by]
        return ComponentChanges(before, by)

    def _count(self, interval: Interval, difference: int) -> None:
        if self._unsorted is not None:
            self._root, self._unsorted = _tree_of(self._unsorted), None
        path = self._path_to(interval.lo)
        path[-1].begin += difference
        for bound in reversed(path):
            bound.sum_up()
        path = self._path_to(interval.hi)
        path[-1].end += difference
        for bound in reversed(path):
            bound.sum_up()

    def _path_to(self, at: Number) -> list[_Bound]:
        """The bounds from the root to a number, which becomes a bound if it is none."""
        path: list[_Bound] = []
        bound = self._root
        while bound is not _LEAF:
            path.append(bound)
            if at == bound.at:
                return path
            bound = bound.left if at < bound.at else bound.right
        path.append(_Bound(at))
        if len(path) > _DEPTH_MIN + _DEPTH_FACTOR * log2(self._root.size + 1):
            path = self._balance(path)
        self._link(path[-2] if len(path) > 1 else None, at, path[-1])
        return path

    def _balance(self, path: list[_Bound]) -> list[_Bound]:
        """Rebuild a subtree that is too deep for a new bound; return the new path to the bound."""
        new = path[-1]
        place = len(path) - 2
        while place > 0:
            bound = path[place]
            if max(bound.left.size, bound.right.size) > _BALANCE * bound.size:
                break
            place -= 1
        above = path[:place]
        bound = _rebuilt(path[place])
        self._link(above[-1] if above else None, new.at, bound)
        while bound is not _LEAF:
            above.append(bound)
            bound = bound.left if new.at < bound.at else bound.right
        return [*above, new]

    def _link(self, above: _Bound | None, at: Number, below: _Bound) -> None:
        """Put a subtree below a bound, on the side of a number; it may have no bound left."""
        if above is None:
            self._root = below
        elif at < above.at:
            above.left = below
        else:
            above.right = below


def _tree_of(intervals: list[Interval]) -> _Bound:
    bounds: dict[Number, _Bound] = {}
    for lo, hi in intervals:
        if lo not in bounds:
            bounds[lo] = _Bound(lo)
        bounds[lo].begin += 1
        if hi not in bounds:
            bounds[hi] = _Bound(hi)
        bounds[hi].end += 1
    return _balanced([bounds[at] for at in sorted(bounds)], 0, len(bounds))


def _first_used(bound: _Bound, at: Number, *, is_beyond: bool = False) -> Number | None:
    """The first number from (or beyond) the given one at which an interval begins or ends."""
    if not bound.used:
        return None
    if bound.at < at or (is_beyond and bound.at == at):
        return _first_used(bound.right, at, is_beyond=is_beyond)
    found = _first_used(bound.left, at, is_beyond=is_beyond)
    if found is None and (bound.begin or bound.end):
        return bound.at
    return _first_used(bound.right, at, is_beyond=is_beyond) if found is None else found


def _first_closed(bound: _Bound, at: Number, open_before: int) -> Number | None:
    """The first bound from a number on after which no interval is open."""
    if open_before + bound.lowest > 0:
        return None
    here = open_before + bound.left.total + bound.begin - bound.end
    if bound.at >= at:
        found = _first_closed(bound.left, at, open_before)
        if found is not None:
            return found
        if here == 0:
            return bound.at
    return _first_closed(bound.right, at, here)


def _rebuilt(root: _Bound) -> _Bound:
    """A balanced subtree of the same bounds, without unused ones."""
    bounds: list[_Bound] = []
    waiting: list[_Bound] = []
    bound = root
    while waiting or bound is not _LEAF:
        while bound is not _LEAF:
            waiting.append(bound)
            bound = bound.left
        bound = waiting.pop()
        if bound.begin or bound.end:
            bounds.append(bound)
        bound = bound.right
    return _balanced(bounds, 0, len(bounds))


def _balanced(bounds: list[_Bound], first: int, beyond: int) -> _Bound:
    if first == beyond:
        return _LEAF
    middle = (first + beyond) // 2
    bound = bounds[middle]
    bound.left = _balanced(bounds, first, middle)
    bound.right = _balanced(bounds, middle + 1, beyond)
    bound.sum_up()
    return bound
