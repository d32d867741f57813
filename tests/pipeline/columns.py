"""Predicates as columns of a table: written, and taken apart."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pyarrow as pa

from smartpubsub.matching import EVENTS_SCHEMA
from smartpubsub.predicates import Predicate
from smartpubsub.predicates.numbers import Exact, Number


def predicate_columns(predicates: Iterable[Predicate]) -> dict[str, pa.Array]:
    """The columns `predicate`, `topics` and `ranges`.

    >>> columns = predicate_columns([Predicate.parse("surf/price[10,]")])
    >>> columns["topics"].to_pylist(), columns["ranges"].to_pylist()
    ([['surf']], [[{'name': 'price', 'lo': 10.0, 'hi': None}]])
    """
    written: list[str] = []
    topics: list[list[str] | None] = []
    ranges: list[list[dict[str, object]] | None] = []
    for predicate in predicates:
        written.append(str(predicate))
        items = predicate.attributes.items()
        bounds = [(name, *interval) for name, interval in items if interval is not None]
        if any(isinstance(bound, Exact) for _, *both in bounds for bound in both):
            topics.append(None)
            ranges.append(None)
            continue
        topics.append([name for name, interval in items if interval is None])
        ranges.append([{"name": n, "lo": _closed(lo), "hi": _closed(hi)} for n, lo, hi in bounds])
    return {
        "predicate": pa.array(written, pa.string()),
        "topics": pa.array(topics, EVENTS_SCHEMA.field("topics").type),
        "ranges": pa.array(ranges, EVENTS_SCHEMA.field("ranges").type),
    }


def _closed(bound: Number) -> Number | None:
    return None if bound in (-math.inf, math.inf) else bound
