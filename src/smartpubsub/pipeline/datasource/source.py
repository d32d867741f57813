"""The data source that Spark finds as `format("smartpubsub")`."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from smartpubsub.pipeline.datasource.journals import JournalStreamReader
from smartpubsub.pipeline.datasource.options import sink_options, source_options
from smartpubsub.pipeline.datasource.past import PastReader
from smartpubsub.pipeline.datasource.sink import BatchSink, StreamSink
from smartpubsub.pipeline.datasource.topics import TopicBatchReader, TopicStreamReader
from smartpubsub.pipeline.schemas import EVENT_ROWS

FORMAT = "smartpubsub"


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
        """Read what there is."""
        options = source_options(self.options, is_stream=False)
        kind = TopicBatchReader if options.topics else PastReader
        return kind(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Read what comes."""
        options = source_options(self.options, is_stream=True)
        kind = TopicStreamReader if options.topics else JournalStreamReader
        return kind(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Publish rows."""
        return BatchSink(sink_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Publish the rows of a stream."""
        return StreamSink(sink_options(self.options), schema, overwrite)
