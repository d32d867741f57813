"""Tables for tests, written as anyone would write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from smartpubsub.matching import EVENTS_SCHEMA
from smartpubsub.pipeline.columns import predicate_columns
from smartpubsub.predicates import Predicate
from smartpubsub.workloads.power_law import event_from, filter_from

Pairs = list[tuple[int, int]]


def table_in(folder: Path, table: pa.Table, files: int = 1) -> Path:
    """A folder with a table in some files."""
    folder.mkdir(parents=True)
    size = -(-len(table) // files) or 1
    for number in range(files):
        pq.write_table(table.slice(number * size, size), folder / f"{number}.parquet")
    return folder


def numbered(key: str, predicates: Sequence[Predicate]) -> pa.Table:
    """Predicates with the columns that matching needs."""
    numbers = pa.array(range(len(predicates)), pa.int64())
    return pa.table({key: numbers, **predicate_columns(predicates)})


def generated(
    events: int, subscriptions: int, seed: int
) -> tuple[list[Predicate], list[Predicate]]:
    """Events and subscriptions of every kind."""
    rng = Random(seed)
    return (
        [event_from(rng) for _ in range(events)],
        [filter_from(rng) for _ in range(subscriptions)],
    )


def matches_by_definition(events: Sequence[Predicate], wanted: Sequence[Predicate]) -> Pairs:
    """Every pair that matches, in order."""
    return [
        (number, key)
        for number, event in enumerate(events)
        for key, filter in enumerate(wanted)
        if filter.matches(event)
    ]


def pairs_in(folder: Path) -> Pairs:
    """The pairs in a table of matches, in order."""
    columns = pq.read_table(folder, columns=["event_id", "subscription_id"]).to_pydict()
    return sorted(zip(columns["event_id"], columns["subscription_id"], strict=True))


def records(count: int, *, authors: int, seed: int = 1) -> pa.Table:
    """Records as ingest writes them."""
    rng = Random(seed)
    names = EVENTS_SCHEMA.names
    events = predicate_columns(event_from(rng) for _ in range(count))
    times = [1_190_000_000 + rng.randrange(10**7) for _ in range(count)]
    return pa.table(
        {
            "event_id": pa.array(rng.sample(range(10**9), count), pa.int64()),
            "time": pa.array([1_000_000 * t for t in times], pa.timestamp("us", "UTC")),
            "author": [f"author-{rng.randrange(authors)}" for _ in range(count)],
            **{name: events[name] for name in names},
            "payload": pa.array([b"what it says"] * count, pa.binary()),
            "source": ["given"] * count,
        }
    )
