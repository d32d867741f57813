"""The attributes of a predicate: names, each bare or with a closed interval."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

from smartpubsub.predicates.numbers import Number, format_number

ATTRIBUTES_MAX = 5


class Interval(NamedTuple):
    """A closed interval; an open side is an infinite bound."""

    lo: Number
    hi: Number

    def touches(self, other: Interval) -> bool:
        """Whether the two intervals have a number in common."""
        return self.lo <= other.hi and other.lo <= self.hi

    def hull(self, other: Interval) -> Interval:
        """The smallest interval that contains both."""
        return Interval(min(self.lo, other.lo), max(self.hi, other.hi))


Attributes: TypeAlias = dict[str, Interval | None]


def checked_interval(lo: Number, hi: Number) -> Interval:
    """The interval between two bounds; raise ValueError if there is none."""
    if lo == math.inf or hi == -math.inf:
        raise ValueError("an interval contains at least one finite number")
    if lo > hi:
        raise ValueError(
            f"the lower bound {format_number(lo)} is above the upper bound {format_number(hi)}"
        )
    return Interval(lo, hi)
