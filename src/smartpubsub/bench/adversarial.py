"""Costly sequences of changes to a set of filters, and their cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from smartpubsub.bench.report import Report
from smartpubsub.bench.timing import best_seconds
from smartpubsub.matching import FilterSet
from smartpubsub.predicates import Interval, Predicate

COUNT = 700
GROWTH = 8
"""How many times larger the large sets are; by n log n, a change in them costs a third more."""


class Step(NamedTuple):
    """A filter that is added under a key, or removed if there is none."""

    key: int
    predicate: Predicate | None

    def apply(self, filters: FilterSet) -> None:
        """Make the change, and read the changes of the summary, as a node does."""
        if self.predicate is None:
            filters.remove(self.key)
        else:
            filters.add(self.key, self.predicate)
        filters.changes()


Sequence: TypeAlias = Callable[[int], Iterator[Step]]


def _surf(lo: float, hi: float, **others: tuple[float, float]) -> Predicate:
    ranges = {"price": (lo, hi), **others}
    intervals = {name: Interval(float(lo), float(hi)) for name, (lo, hi) in ranges.items()}
    return Predicate.unchecked({"surf": None, **intervals})


def touching(count: int) -> Iterator[Step]:
    """Filters that merge into one, of which every other is withdrawn."""
    for key in range(count):
        yield Step(key, _surf(key, key + 1))
    for key in range(0, count, 2):
        yield Step(key, None)


def disjoint(count: int) -> Iterator[Step]:
    """Unrelated filters: the ordinary case to compare with."""
    for key in range(count):
        yield Step(key, _surf(3 * key, 3 * key + 1))
    for key in range(0, count, 2):
        yield Step(key, None)


def broad(count: int) -> Iterator[Step]:
    """A filter that covers all others comes and goes."""
    for key in range(count):
        yield Step(key, _surf(3 * key, 3 * key + 1))
    for key in range(count, 2 * count):
        yield Step(key, Predicate.unchecked({"surf": None}))
        yield Step(key, None)


def bridge(count: int) -> Iterator[Step]:
    """A range that merges with all others comes and goes."""
    for key in range(count):
        yield Step(key, _surf(3 * key, 3 * key + 1))
    for key in range(count, 2 * count):
        yield Step(key, _surf(0, 3 * count))
        yield Step(key, None)


def two_broad(count: int) -> Iterator[Step]:
    """Two filters cover all others, and one of them is always there."""
    for key in range(count):
        yield Step(key, _surf(3 * key, 3 * key + 1, size=(1, 2)))
    for key in range(count, 2 * count):
        wide = _surf(0, 3 * count, size=(0, 2) if key % 2 else (1, 3))
        yield Step(key, wide)
        if key > count:
            yield Step(key - 1, None)


def squares(count: int) -> Iterator[Step]:
    """Squares that merge along both ranges into one; one of them comes and goes."""
    side = int(count**0.5)
    for key in range(side * side):
        row, column = divmod(key, side)
        yield Step(key, _surf(row, row + 1, size=(column, column + 1)))
    for _ in range(count):
        yield Step(side, None)
        yield Step(side, _surf(1, 2, size=(0, 1)))


def spiral(count: int) -> Iterator[Step]:
    """Each rectangle merges with the rectangle of all before it; the innermost comes and goes."""
    left = bottom = 0.0
    right = top = 1.0
    yield Step(0, _surf(left, right, size=(bottom, top)))
    for key in range(1, count):
        if key % 4 == 0:
            yield Step(key, _surf(left - 1, left, size=(bottom, top)))
            left -= 1
        elif key % 4 == 1:
            yield Step(key, _surf(left, right, size=(top, top + 1)))
            top += 1
        elif key % 4 == 2:
            yield Step(key, _surf(right, right + 1, size=(bottom, top)))
            right += 1
        else:
            yield Step(key, _surf(left, right, size=(bottom - 1, bottom)))
            bottom -= 1
    for _ in range(count):
        yield Step(0, None)
        yield Step(0, _surf(0, 1, size=(0, 1)))


SEQUENCES: tuple[Sequence, ...] = (touching, broad, bridge, two_broad, squares, spiral)


def add_figures(report: Report) -> None:
    """Compare each sequence with the ordinary case, and large sets with small ones."""
    report.add("disjoint summary", _changes_per_s(disjoint, COUNT), "changes/s")
    for sequence in SEQUENCES:
        name = sequence.__name__
        report.add(f"{name} summary", _changes_per_s(sequence, COUNT), "changes/s")
        large = _changes_per_s(sequence, GROWTH * COUNT)
        report.add(f"{name} large summary", large, "changes/s")
        report.compare(name, "disjoint", "summary", at_least=1 / 20)
        report.compare(f"{name} large", name, "summary", at_least=1 / 3)


def _changes_per_s(sequence: Sequence, count: int) -> float:
    steps = list(sequence(count))

    def run() -> None:
        filters = FilterSet()
        for step in steps:
            step.apply(filters)

    return len(steps) / best_seconds(run, tries=2)
