"""Generated subscriptions and events, the same for all benchmarks.

A vocabulary of 10,000 topics with Zipf's law and 20 numeric attributes. `W1` has subscriptions of
1 to 4 topics, of which some 0.12 % match an event; `W2` of 2 to 4, of which some 0.002 % do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from smartpubsub.matching import EVENTS_SCHEMA
from smartpubsub.predicates import Interval, Predicate

TOPIC_COUNT = 10_000
TOPIC_EXPONENT = 0.8
ATTRIBUTE_COUNT = 20
RANGES_MAX = 3
RANGE_WIDTHS = (0.05, 0.5)
EVENT_TOPICS = (3, 8)
ABSENT_SHARE = 0.4
INTERVAL_EVENT_SHARE = 0.1
INTERVAL_WIDTH = 0.01
PART_COUNT = 500_000

TOPICS = [f"t{number}" for number in range(TOPIC_COUNT)]
ATTRIBUTES = [f"a{number}" for number in range(ATTRIBUTE_COUNT)]

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Workload:
    """How many topics a subscription has."""

    name: str
    topics_min: int
    topics_max: int


W1 = Workload("W1", 1, 4)
W2 = Workload("W2", 2, 4)


class Subscriptions(NamedTuple):
    """Topics (-1 for none) and ranges (attribute -1 for none), one row for each subscription."""

    topics: Integers
    attributes: Integers
    los: Floats
    his: Floats

    def predicates(self) -> Iterator[Predicate]:
        """The subscriptions as predicates, made one at a time to save memory."""
        columns = (column.tolist() for column in self)
        for topics, attributes, los, his in zip(*columns, strict=True):
            wanted: dict[str, Interval | None] = {TOPICS[t]: None for t in topics if t >= 0}
            for attribute, lo, hi in zip(attributes, los, his, strict=True):
                if attribute >= 0:
                    wanted[ATTRIBUTES[attribute]] = Interval(lo, hi)
            yield Predicate.unchecked(wanted)

    def table(self) -> pa.Table:
        """The subscriptions with the columns of a table of events."""
        row, slot = np.nonzero(self.attributes >= 0)
        return _table(
            self.topics,
            (self.attributes[row, slot], self.los[row, slot], self.his[row, slot]),
            (self.attributes >= 0).sum(axis=1),
        )


class Events(NamedTuple):
    """Topics (-1 for none) and a bound pair for every attribute (NaN where it is absent)."""

    topics: Integers
    los: Floats
    his: Floats

    def predicates(self) -> list[Predicate]:
        """The events as predicates."""
        events = []
        for topics, los, his in zip(*(column.tolist() for column in self), strict=True):
            carried: dict[str, Interval | None] = {TOPICS[t]: None for t in topics if t >= 0}
            for name, lo, hi in zip(ATTRIBUTES, los, his, strict=True):
                if lo == lo:
                    carried[name] = Interval(lo, hi)
            events.append(Predicate.unchecked(carried))
        return events

    def table(self) -> pa.Table:
        """The events as a table for `Index.match_table`."""
        present = ~np.isnan(self.los)
        row, attribute = np.nonzero(present)
        ranges = (attribute, self.los[row, attribute], self.his[row, attribute])
        return _table(self.topics, ranges, present.sum(axis=1))


def _table(
    topics: Integers, ranges: tuple[Integers, Floats, Floats], range_counts: Integers
) -> pa.Table:
    attributes, los, his = ranges
    used = topics >= 0
    values = pa.StructArray.from_arrays(
        [_named(attributes, ATTRIBUTES), pa.array(los), pa.array(his)],
        ["name", "lo", "hi"],
    )
    columns = [
        pa.ListArray.from_arrays(_offsets(used.sum(axis=1)), _named(topics[used], TOPICS)),
        pa.ListArray.from_arrays(_offsets(range_counts), values),
    ]
    return pa.Table.from_arrays(columns, EVENTS_SCHEMA.names)


def _named(numbers: Integers, names: list[str]) -> pa.StringArray:
    return pa.DictionaryArray.from_arrays(pa.array(numbers), names).cast(pa.string())


def subscriptions(workload: Workload, count: int, seed: int) -> Subscriptions:
    """Subscriptions of a workload."""
    rng = np.random.default_rng([seed, 1])
    topic_counts = rng.integers(workload.topics_min, workload.topics_max, count, endpoint=True)
    topics = _distinct_topics(rng, topic_counts)
    range_counts = rng.integers(0, RANGES_MAX, count, endpoint=True)
    # The first few of a random order of the attributes, so that none is repeated.
    attributes = rng.random((count, ATTRIBUTE_COUNT), dtype=np.float32).argsort(axis=1)
    attributes = attributes[:, :RANGES_MAX]
    attributes[np.arange(RANGES_MAX) >= range_counts[:, None]] = -1
    widths = rng.uniform(*RANGE_WIDTHS, (count, RANGES_MAX))
    los = rng.random((count, RANGES_MAX)) * (1 - widths)
    return Subscriptions(topics, attributes, los, los + widths)


def predicates_in_parts(workload: Workload, count: int, seed: int) -> Iterator[Predicate]:
    """Any number of subscriptions, generated in parts to limit memory."""
    for part in range(0, count, PART_COUNT):
        wanted = min(PART_COUNT, count - part)
        yield from subscriptions(workload, wanted, seed + part).predicates()


def events(count: int, seed: int) -> Events:
    """Events for either workload."""
    rng = np.random.default_rng([seed, 2])
    topics = _distinct_topics(rng, rng.integers(*EVENT_TOPICS, count, endpoint=True))
    los = rng.random((count, ATTRIBUTE_COUNT))
    los[rng.random(los.shape) < ABSENT_SHARE] = np.nan
    widths = np.where(rng.random((count, 1)) < INTERVAL_EVENT_SHARE, INTERVAL_WIDTH, 0.0)
    return Events(topics, los, los + widths)


def _distinct_topics(rng: np.random.Generator, counts: Integers) -> Integers:
    weights = np.arange(1, TOPIC_COUNT + 1) ** -TOPIC_EXPONENT
    thresholds = np.cumsum(weights / weights.sum())
    width = int(counts.max())
    topics = np.full((len(counts), width), -1, np.int64)
    for column in range(width):
        open_rows = np.nonzero(column < counts)[0]
        while len(open_rows):
            drawn = np.searchsorted(thresholds, rng.random(len(open_rows))).clip(
                max=TOPIC_COUNT - 1
            )
            topics[open_rows, column] = drawn
            repeated = (topics[open_rows, :column] == drawn[:, None]).any(axis=1)
            open_rows = open_rows[repeated]
    return topics


def _offsets(lengths: Integers) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
