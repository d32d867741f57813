"""Rows published as events, each once.

The key of an event is made of the query, the batch, the partition and the number of the row in the
partition. The node publishes by a key once and acknowledges it again, so a task or a batch that is
repeated publishes nothing twice, if its rows come in the same order.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from smartpubsub.node.errors import KeyConflictError
from smartpubsub.pipeline.datasource.events import EventMapping, NewEvent
from smartpubsub.pipeline.datasource.nodes import NodeLink
from smartpubsub.pipeline.datasource.options import OptionError, SinkOptions
from smartpubsub.pipeline.errors import PipelineError

EVENTS_AT_ONCE = 200
BYTES_AT_ONCE = 2 << 20
_log = logging.getLogger(__name__)
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass
class Published(WriterCommitMessage):
    """The result of a task."""

    rows: int
    known_max: int
    """The number of keys that the node remembers; 0 without rows."""


class _Sink:
    """The work of the tasks, and the checks of the driver when all are done."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise PipelineError(
                "events cannot be overwritten: use mode('append'), and outputMode('append') or"
                " 'update' for a stream"
            )
        self._options = options
        self._mapping = EventMapping(options, schema)
        self._own_key = str(uuid4())
        """For rows outside of streams: the same for all tasks of the job."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish the rows of a partition."""
        task = TaskContext.get()
        assert task is not None
        prefix = f"{self._key(task)}/{task.partitionId()}"
        events = (event for batch in iterator for event in self._mapping.events(batch))
        link = NodeLink(self._options, was_there=True)
        number, known_max = 0, 0
        while some := [*_some(events)]:
            try:
                answer = link.ask("publish-all", **self._request(some, prefix, number))
            except KeyConflictError as error:
                raise PipelineError(
                    f"{error}; the rows of a repeated batch came in another order, or the key is"
                    " used for other rows: sort the rows, or set another 'idempotencyKey'"
                ) from None
            number, known_max = number + len(some), answer["key_count_max"]
            if number > known_max:
                raise PipelineError(
                    f"a partition has more than {known_max:,} rows, of which the node remembers the"
                    " keys; run the node with a higher key_count_max, or write fewer at once"
                )
        link.close()
        return Published(number, known_max)

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int | None = None,  # noqa: ARG002, N803
    ) -> None:
        """Warn about a batch whose first keys the node has already forgotten."""
        done = [message for message in messages if isinstance(message, Published)]
        rows = sum(each.rows for each in done)
        known_max = max((each.known_max for each in done), default=0)
        if rows > known_max:
            _log.warning(
                "a batch has %d rows, and the node remembers the keys of %d: had it been repeated,"
                " some would have come twice; run the node with a higher key_count_max, or write"
                " fewer at once",
                rows,
                known_max,
            )

    def _key(self, task: TaskContext) -> str:
        if self._options.key is not None:
            return self._options.key
        query, batch = task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH)
        return self._own_key if query is None or batch is None else f"{query}/{batch}"

    def _request(self, events: list[NewEvent], prefix: str, number: int) -> dict[str, Any]:
        written = [
            {
                "payload": base64.b64encode(event.payload).decode(),
                "key": f"{prefix}/{number + place}",
                **({} if event.predicate is None else {"event": event.predicate}),
            }
            for place, event in enumerate(events)
        ]
        topic = self._options.topic
        return {"events": written, **({} if topic is None else {"topic": topic})}


def _some(events: Iterator[NewEvent]) -> Iterator[NewEvent]:
    """The next events, as many as one request may have."""
    size = 0
    for event in islice(events, EVENTS_AT_ONCE):
        yield event
        size += len(event.payload)
        if size >= BYTES_AT_ONCE:
            return


class BatchSink(_Sink, DataSourceArrowWriter):
    """Publishes the rows of a DataFrame."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        _check_node(NodeLink(options))  # Tasks would wait for a node that never ran.


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    """Publishes the rows of a stream."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        if options.key is not None:  # All batches would have the same keys.
            raise OptionError(
                "idempotencyKey", "is for a write that is not part of a stream; leave it out"
            )
        super().__init__(options, schema, overwrite)
        # Spark makes a sink for each batch, and the node may be restarting. Each try of a task
        # would wait for as long as this does once.
        _check_node(NodeLink(options, was_there=True))


def _check_node(link: NodeLink) -> None:
    link.ask("info")
    link.close()
