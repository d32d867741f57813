"""The databases that a Python user could use instead: DuckDB and SQLite.

Both keep a subscription under its rarest topic, with the other topics and the ranges in columns
of the same row, which was the fastest of the formulations tried for each.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

from smartpubsub.bench.workloads import ATTRIBUTES, RANGES_MAX, TOPIC_COUNT, TOPICS, Subscriptions
from smartpubsub.predicates import Predicate

_TOPIC_SLOTS = [f"topic{slot}" for slot in range(1, 4)]
_RANGE_SLOTS = [f"range{slot}" for slot in range(1, RANGES_MAX + 1)]


def subscription_table(subscriptions: Subscriptions) -> pa.Table:
    """One row for each subscription: its rarest topic, its other topics, its ranges."""
    topics = subscriptions.topics
    uses = np.bincount(topics[topics >= 0], minlength=TOPIC_COUNT)
    rareness = np.where(topics >= 0, uses[topics], np.iinfo(np.int64).max)
    access = topics[np.arange(len(topics)), rareness.argmin(axis=1)]
    others = -np.sort(-np.where(topics == access[:, None], -1, topics), axis=1)
    columns = {"key": pa.array(np.arange(len(topics))), "access": _words(TOPICS, access)}
    for slot, name in enumerate(_TOPIC_SLOTS):
        columns[name] = _words(TOPICS, others[:, slot])
    for slot, name in enumerate(_RANGE_SLOTS):
        columns[name] = _words(ATTRIBUTES, subscriptions.attributes[:, slot])
        columns[f"{name}_lo"] = pa.array(subscriptions.los[:, slot])
        columns[f"{name}_hi"] = pa.array(subscriptions.his[:, slot])
    return pa.table(columns)


def _words(vocabulary: list[str], numbers: np.typing.NDArray[np.int64]) -> pa.Array:
    return pa.array(np.array(vocabulary)[numbers], pa.string(), mask=numbers < 0)


class DuckDb:
    """Batches of events, joined with the subscriptions on one thread."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._connection = duckdb.connect()
        self._connection.execute("set threads = 1")
        self._connection.register("given", subscription_table(subscriptions))
        self._connection.execute(
            "create table subscriptions as select * from given order by access"
        )
        self._connection.unregister("given")

    def match_table(self, events: pa.Table) -> pa.Table:
        """Every (event, key) that matches, events being row numbers."""
        self._connection.register("events", events.append_column("event", _row_numbers(events)))
        topics = [f"({slot} is null or list_contains(topics, {slot}))" for slot in _TOPIC_SLOTS]
        ranges = [
            f"({slot} is null or ({slot}_lo <= carried[{slot}].lo"
            f" and carried[{slot}].hi <= {slot}_hi))"
            for slot in _RANGE_SLOTS
        ]
        return self._connection.sql(
            f"""
            with carried as (
                select event, topics, map_from_entries(list_transform(ranges,
                    lambda r: struct_pack(k := r.name, v := struct_pack(lo := r.lo, hi := r.hi))
                )) as carried
                from events
            ), entries as (
                select event, topics, carried, unnest(topics) as access from carried
            )
            select event, key from entries join subscriptions using (access)
            where {" and ".join(topics + ranges)}
            """
        ).to_arrow_table()

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


def _row_numbers(table: pa.Table) -> pa.Array:
    return pa.array(np.arange(len(table)))


class Sqlite:
    """Single events, matched by a prepared query over an index on the rarest topic."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        table = subscription_table(subscriptions)
        names = ", ".join(table.column_names)
        places = ", ".join("?" * table.num_columns)
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute(f"create table subscriptions ({names})")
        self._connection.executemany(f"insert into subscriptions values ({places})", _rows(table))
        self._connection.execute("create index by_access on subscriptions (access)")
        self._connection.execute("create table carried (name primary key, lo, hi) without rowid")
        topics = [
            f"({slot} is null or {slot} in (select name from carried))" for slot in _TOPIC_SLOTS
        ]
        ranges = [
            f"({slot} is null or exists (select 1 from carried c where c.name = {slot}"
            f" and {slot}_lo <= c.lo and c.hi <= {slot}_hi))"
            for slot in _RANGE_SLOTS
        ]
        self._query = (
            # A cross join is one whose order SQLite does not change.
            "select key from carried cross join subscriptions on access = name where "
            + " and ".join(topics + ranges)
        )

    def match(self, event: Predicate) -> list[int]:
        """The keys of all subscriptions that an event matches."""
        self._connection.execute("delete from carried")
        self._connection.executemany(
            "insert into carried values (?, ?, ?)",
            [(name, *(interval or (None, None))) for name, interval in event.attributes.items()],
        )
        return [key for (key,) in self._connection.execute(self._query)]

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


def _rows(table: pa.Table) -> Iterator[tuple[object, ...]]:
    for batch in table.to_batches(max_chunksize=10_000):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
