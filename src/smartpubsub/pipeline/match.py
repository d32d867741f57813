"""The stage `match`: pairs every event with every subscription that it matches.

The driver builds one matching index of all subscriptions and saves it. Spark distributes the file
to every machine, where all tasks map it, so that it is in memory once. Events pass through as Arrow
batches.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession, is_remote

from smartpubsub.matching import EVENTS_SCHEMA, Index
from smartpubsub.matching.tables import events_of
from smartpubsub.pipeline.errors import PipelineError, plain_errors
from smartpubsub.pipeline.schemas import MATCHES
from smartpubsub.predicates import Predicate
from smartpubsub.sim.kernel.collector import collector_off

EVENT_COLUMNS = ("event_id", "predicate", "topics", "ranges")
SUBSCRIPTION_COLUMNS = ("subscription_id", "predicate", "topics", "ranges")
PAIRS_PER_BATCH = 1 << 16
"""The size of a batch of matches; one event may match a million subscriptions."""
BATCHES_HERE_MAX = 16
"""Up to so many batches, the driver finds the matches of little data itself."""
SUBSCRIPTIONS_PER_PART = 100_000

_PAIRS_SCHEMA = pa.schema([(name, pa.int64()) for name in MATCHES.names])


def matches(events: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Every (event_id, subscription_id) that matches, of tables with the columns above."""
    index = build_index(collected(subscriptions, SUBSCRIPTION_COLUMNS))
    return matches_in(events, share_index(subscriptions.sparkSession, index))


def matches_here(events: pa.Table, subscriptions: pa.Table) -> pa.Table | None:
    """Like `matches`, in this process; None if there are more than some."""
    found = [*islice(pairs(build_index(subscriptions), events), BATCHES_HERE_MAX + 1)]
    is_all = len(found) <= BATCHES_HERE_MAX
    return pa.Table.from_batches(found, schema=_PAIRS_SCHEMA) if is_all else None


def collected(frame: DataFrame, columns: Sequence[str]) -> pa.Table:
    """Some columns of all rows."""
    with plain_errors():
        return frame.select(*columns).toArrow()


def matches_in(events: DataFrame, index_name: str) -> DataFrame:
    """Like `matches`, with an index that was shared before."""
    found = events.select(*EVENT_COLUMNS).mapInArrow(_matcher(index_name), MATCHES.schema)
    return found.select(*MATCHES.names)


def share_index(spark: SparkSession, index: Index) -> str:
    """Distribute an index to every machine; return its name there."""
    name = f"subscriptions-{uuid.uuid4().hex}.index"
    if is_remote():
        with TemporaryDirectory(prefix="smartpubsub-") as folder, plain_errors():
            path = Path(folder, name)
            index.save(path)
            spark.addArtifacts(str(path), file=True)
        return name
    # Spark's folder of files for workers, which is removed with the session.
    path = Path(SparkFiles.getRootDirectory(), name)
    index.save(path)
    with plain_errors():
        spark.sparkContext.addFile(str(path))
    return name


def build_index(table: pa.Table) -> Index:
    """An index of all subscriptions under their numbers."""
    index = Index()
    with collector_off():
        for start in range(0, len(table), SUBSCRIPTIONS_PER_PART):
            part = table.slice(start, SUBSCRIPTIONS_PER_PART)
            for number, predicate in _numbered_predicates(part):
                try:
                    index.add(number, predicate)
                except ValueError:
                    raise PipelineError(
                        f"subscription_id {number} is repeated; every row has its own"
                    ) from None
    return index


def _numbered_predicates(table: pa.Table) -> Iterator[tuple[int, Predicate]]:
    for part, rows in _apart(table, "subscription_id"):
        yield from zip(part.to_pylist(), events_of(rows), strict=True)


def _matcher(index_name: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def match(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index = mapped_index(index_name)
        for batch in batches:
            yield from pairs(index, pa.Table.from_batches([batch]))

    return match


def mapped_index(index_name: str) -> Index:
    """The shared index, in a task."""
    return _mapped(SparkFiles.get(index_name))


@lru_cache(maxsize=1)
def _mapped(path: str) -> Index:
    """The index that a worker keeps between tasks."""
    return Index.load(path)


def pairs(index: Index, events: pa.Table) -> Iterator[pa.RecordBatch]:
    """The matches of some events, in batches of bounded size."""
    for numbers, rows in _apart(events, "event_id"):
        done = 0
        for lists in index.match_batches(rows):
            own = numbers.slice(done, len(lists))
            done += len(lists)
            found = lists.flatten()
            event_ids = own.take(pc.list_parent_indices(lists))
            for start in range(0, len(found), PAIRS_PER_BATCH):
                columns = [
                    event_ids.slice(start, PAIRS_PER_BATCH).combine_chunks(),
                    found.slice(start, PAIRS_PER_BATCH),
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=_PAIRS_SCHEMA)


def _apart(table: pa.Table, key: str) -> Iterator[tuple[pa.ChunkedArray, pa.Table]]:
    """The rows with topics and ranges, then those with text only; each with their keys."""
    numbers = table.column(key).cast(pa.int64())
    if numbers.null_count:
        raise PipelineError(f"{key} is null in a row; every row has its own number")
    is_written = pc.and_(pc.is_null(table.column("topics")), pc.is_null(table.column("ranges")))
    if not pc.any(is_written).as_py():
        yield numbers, table.select(EVENTS_SCHEMA.names)
        return
    rest = pc.invert(is_written)
    yield numbers.filter(rest), table.filter(rest).select(EVENTS_SCHEMA.names)
    texts = table.column("predicate").filter(is_written)
    yield numbers.filter(is_written), pa.table({"event": texts})
