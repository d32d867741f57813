"""Predicates as columns of a table: as text, and as topics and ranges."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from smartpubsub.matching import EVENTS_SCHEMA
from smartpubsub.matching.tables import events_of
from smartpubsub.pipeline.schemas import Table
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


def written(frame: DataFrame, table: Table) -> DataFrame:
    """Fill in `predicate` where it is null."""
    return frame.mapInArrow(_write, table.schema).select(*table.names)


def _write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        place = batch.schema.get_field_index("predicate")
        rows = pa.Table.from_batches([batch])
        is_missing = pc.is_null(rows.column("predicate"))
        parts = rows.filter(is_missing).select(EVENTS_SCHEMA.names)
        texts = pa.array(map(str, events_of(parts)), pa.string())
        column = pc.replace_with_mask(batch.column(place), is_missing.combine_chunks(), texts)
        yield batch.set_column(place, batch.schema.field(place), column)


def _closed(bound: Number) -> Number | None:
    return None if bound in (-math.inf, math.inf) else bound
