"""Filters of a query that the source applies itself, and that the node applies where it can.

A column of a number is an attribute of the event, or else a member of its payload. So the node can
leave an event out only if the predicate names the attribute: then all events have it. The column is
null if the attribute has an interval, so a comparison excludes such an event in any case.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import DoubleType, IntegralType, StructType

from smartpubsub.pipeline.datasource.rows import is_usual
from smartpubsub.predicates import Interval, Predicate

_COMPARISONS: dict[type[Filter], Callable[[Any, Any], pa.Array]] = {
    EqualTo: pc.equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
}


class Comparison(NamedTuple):
    """A comparison of a column with a number."""

    column: str
    kind: type[Filter]
    value: float

    @property
    def interval(self) -> Interval:
        """The interval outside of which the node may leave events out.

        A column has the nearest double of a number, so bounds are one double further out.
        """
        below, above = math.nextafter(self.value, -math.inf), math.nextafter(self.value, math.inf)
        has_lower = self.kind in (EqualTo, GreaterThan, GreaterThanOrEqual)
        has_upper = self.kind in (EqualTo, LessThan, LessThanOrEqual)
        return Interval(below if has_lower else -math.inf, above if has_upper else math.inf)


def comparison_in(filter: Filter, schema: StructType) -> Comparison | None:
    """The comparison that a filter stands for, if its column is an attribute."""
    attribute: tuple[str, ...] = getattr(filter, "attribute", ())
    value: object = getattr(filter, "value", None)
    if type(filter) not in _COMPARISONS or len(attribute) != 1 or is_usual(attribute[0]):
        return None
    kind = schema[attribute[0]].dataType
    # A column of floats has other numbers than the events, which the node compares.
    if not isinstance(kind, DoubleType | IntegralType) or isinstance(value, bool):
        return None
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return Comparison(attribute[0], type(filter), value)


def narrowed(predicate: Predicate, comparisons: Sequence[Comparison]) -> Predicate:
    """A narrower predicate, which all events that meet the comparisons still match."""
    attributes = dict(predicate.attributes)
    for comparison in comparisons:
        if comparison.column in attributes:
            had = attributes[comparison.column] or Interval(-math.inf, math.inf)
            wanted = comparison.interval
            both = Interval(max(had.lo, wanted.lo), min(had.hi, wanted.hi))
            if operator.le(*both):  # Otherwise no event meets both, and the source finds none.
                attributes[comparison.column] = both
    return Predicate.unchecked(attributes)


def filtered(batch: pa.RecordBatch, comparisons: Sequence[Comparison]) -> pa.RecordBatch:
    """The rows that meet all comparisons."""
    for column, kind, value in comparisons:
        batch = batch.filter(_COMPARISONS[kind](batch.column(column), value))
    return batch
