"""How rows are divided among tasks.

The division depends on the rows and the options only. So a batch that is read again is divided as
before, also by another number of cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

ROWS_PER_PART = 25_000


class Part(NamedTuple):
    """A part of one of several sequences."""

    sequence: int
    first: int
    length: int


def parts(counts: Sequence[int], count_min: int | None) -> list[Part]:
    """Divide sequences of so many rows each into parts, at least `count_min` if there are rows.

    >>> parts([2, 0, 2], 2)
    [Part(sequence=0, first=0, length=2), Part(sequence=2, first=0, length=2)]
    >>> [part.length for part in parts([10], 4)]
    [2, 2, 2, 2, 2]
    """
    size = ROWS_PER_PART
    if count_min is not None:
        size = max(1, min(size, sum(counts) // count_min))
    return [
        Part(sequence, first, min(size, count - first))
        for sequence, count in enumerate(counts)
        for first in range(0, count, size)
    ]
