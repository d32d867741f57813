"""Events for the stage `match`, read by the tasks themselves.

Spark would unpack every list and struct of an event into rows and pack them again for Python, which
takes as long as matching. So where events are plain files, tasks read the Parquet themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from smartpubsub.pipeline.folders import Folder, open_file
from smartpubsub.pipeline.match import EVENT_COLUMNS, mapped_index, pairs
from smartpubsub.pipeline.schemas import EVENTS, MATCHES
from smartpubsub.pipeline.sessions import core_count

EVENTS_PER_BATCH = 10_000


class Part(NamedTuple):
    """Some events of a file: every n-th batch of a row group, from a first one on."""

    path: str
    row_group: int
    first: int
    step: int


def matches_in_files(spark: SparkSession, path: str, index_name: str) -> DataFrame:
    """Every (event_id, subscription_id) that matches, of a table of events in plain files."""
    parts = [*_parts(Folder(spark, path))]
    # One task per part, identified by its number.
    tasks = spark.range(len(parts), numPartitions=max(len(parts), 1))
    found = tasks.mapInArrow(_matcher(parts, index_name), MATCHES.schema)
    return found.select(*MATCHES.names)


def _parts(folder: Folder) -> Iterator[Part]:
    """The row groups; where there are fewer than cores, every n-th batch of each.

    Then several tasks read a group, which is far less work than matching.
    """
    groups = []
    for path in folder.data_files():
        with open_file(path) as file:
            metadata = pq.ParquetFile(file).metadata
        for number in range(metadata.num_row_groups):
            batches = -(-metadata.row_group(number).num_rows // EVENTS_PER_BATCH)
            groups.append((path, number, batches))
    wanted = -(-core_count() // max(len(groups), 1))
    for path, number, batches in groups:
        step = min(batches, wanted)
        yield from (Part(path, number, first, step) for first in range(step))


def _matcher(
    parts: list[Part], index_name: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def match(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index = mapped_index(index_name)
        for number in (number for batch in numbers for number in batch.column("id").to_pylist()):
            for events in _events(parts[number]):
                yield from pairs(index, events)

    return match


def _events(part: Part) -> Iterator[pa.Table]:
    with open_file(part.path) as opened:
        file = pq.ParquetFile(opened)
        names = [name for name in EVENT_COLUMNS if name in file.schema_arrow.names]
        batches = file.iter_batches(
            EVENTS_PER_BATCH, row_groups=[part.row_group], columns=names, use_threads=False
        )
        for number, batch in enumerate(batches):
            if number % part.step == part.first:
                yield _completed(pa.Table.from_batches([batch]))


def _completed(events: pa.Table) -> pa.Table:
    """Add missing nullable columns."""
    for name in EVENT_COLUMNS:
        if name not in events.column_names:
            assert EVENTS.column(name).is_nullable
            events = events.append_column(name, pa.nulls(len(events)))
    return events
