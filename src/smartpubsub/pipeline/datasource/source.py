"""The data source that Spark finds as `format("smartpubsub")`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from smartpubsub.pipeline.datasource.journals import JournalStreamReader
from smartpubsub.pipeline.datasource.options import sink_options, source_options
from smartpubsub.pipeline.datasource.past import PastReader
from smartpubsub.pipeline.datasource.sink import BatchSink, StreamSink
from smartpubsub.pipeline.datasource.topics import TopicBatchReader, TopicStreamReader
from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.pipeline.schemas import EVENT_ROWS

FORMAT = "smartpubsub"


class RefusedStreamReader(DataSourceStreamReader):
    """Raises the error of a stream when Spark asks for its first offset.

    Spark 4.3 hides an error of `streamReader` behind another one, because it stops the missing
    reader.
    """

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query would begin."""
        raise PipelineError(self._problem)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002
        """Where the next batch would end, of a query with a checkpoint."""
        raise PipelineError(self._problem)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        """How a batch would be divided that is repeated after a restart."""
        raise PipelineError(self._problem)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Read nothing."""
        raise PipelineError(self._problem)


class SmartPubSubSource(DataSource):
    """Events of a running node."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns, if the user declares none."""
        return EVENT_ROWS.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the existing events."""
        options = source_options(self.options, is_stream=False)
        kind = TopicBatchReader if options.topics else PastReader
        return kind(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Read new events."""
        try:
            options = source_options(self.options, is_stream=True)
            kind = TopicStreamReader if options.topics else JournalStreamReader
            return kind(options, schema)
        except PipelineError as error:
            return RefusedStreamReader(str(error))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Publish rows."""
        return BatchSink(sink_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Publish the rows of a stream."""
        return StreamSink(sink_options(self.options), schema, overwrite)
