"""Predicates as a table: the past events that match one, in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from smartpubsub.node.api.past import time_us
from smartpubsub.pipeline.datasource.nodes import NodeLink
from smartpubsub.pipeline.datasource.options import (
    EARLIEST,
    Losses,
    OptionError,
    Position,
    SourceOptions,
    since_text,
)
from smartpubsub.pipeline.datasource.partitions import parts
from smartpubsub.pipeline.datasource.pushdown import (
    Comparison,
    comparison_in,
    filtered,
    narrowed,
)
from smartpubsub.pipeline.datasource.rows import RowSchema
from smartpubsub.predicates import Predicate

_NO_END_US = 1 << 52
"""Later than all events."""


@dataclass
class PastPart(InputPartition):
    """The events whose ids have a certain checksum."""

    number: int
    of: int
    until_us: int


class PastReader(DataSourceReader):
    """Reads past events that match a predicate."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        start = options.start or Position(EARLIEST)
        positions = {"startingOffsets": start, "endingOffsets": options.end}
        for option, position in positions.items():
            if position.offsets is not None:
                problem = "a table of past events begins and ends at times; give a time"
                raise OptionError(option, problem)
        self._options = options
        self._schema = schema
        self._rows = RowSchema(schema)
        self._since = since_text(start)
        assert options.predicate is not None
        self.predicate = Predicate.parse(options.predicate)
        """The predicate that the node gets."""
        self._comparisons: list[Comparison] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take over comparisons with numbers; the others stay with Spark."""
        for each in filters:
            comparison = comparison_in(each, self._schema)
            if comparison is None:
                yield each
            else:
                self._comparisons.append(comparison)
        self.predicate = narrowed(self.predicate, self._comparisons)

    def partitions(self) -> Sequence[InputPartition]:
        """Divide the events among tasks."""
        if self._since is None:
            return []
        link = NodeLink(self._options)
        until_us = self._until_us()
        answer, _ = self._page(link, PastPart(0, 1, until_us), limit=0)
        link.close()
        if not answer["is_whole"]:
            Losses(self._options.fails_on_data_loss).judge(
                f"the history of {self.predicate} lacks events, as not all nodes that keep it"
                " answered; try later"
            )
        count = len(parts([answer["count"]], self._options.partition_count_min))
        return [PastPart(number, count, until_us) for number in range(count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        # Imported here, because the Python process of each planning step does not need it.
        from smartpubsub.pipeline.datasource.decoding import StoredEvents

        if not isinstance(partition, PastPart):
            return  # Spark passes None if there are no parts.
        link = NodeLink(self._options, was_there=True)
        first = 0
        while len(events := StoredEvents(self._page(link, partition, first=first)[1])):
            first += len(events)
            for batch in self._rows.batches(events):
                yield self.filtered(batch)
        link.close()

    def filtered(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that meet the filters which Spark does not apply."""
        return filtered(rows, self._comparisons)

    def _until_us(self) -> int:
        at = self._options.end.at
        if at is not None:
            return time_us(at)
        # The node remembers a history by its end. So each read that has none gets one of its own,
        # and finds the events that were published since the last one.
        return _NO_END_US + time_us(datetime.now(UTC))

    def _page(self, link: NodeLink, part: PastPart, **fields: int) -> tuple[dict[str, Any], bytes]:
        return link.page(
            "past-events",
            predicate=str(self.predicate),
            since=self._since,
            until_us=part.until_us,
            part=part.number,
            parts=part.of,
            **fields,
        )
