"""Lines of zstd files with a window longer than Spark's reader allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import zstandard
from pyspark.sql import DataFrame, SparkSession

from smartpubsub.pipeline.folders import file_system_of

WINDOW_BYTES_MAX = 1 << 31
"""The window of large public dumps."""
CHUNK_BYTES = 1 << 22
LINES_PER_BATCH = 10_000
LINE_BYTES_MAX = 64 << 20
"""A longer line is cut into pieces, which all count as bad lines."""

_SCHEMA = pa.schema([("value", pa.binary())])


def zst_lines(spark: SparkSession, path: str) -> DataFrame:
    """The lines of a file, in one partition and in order."""
    one = spark.createDataFrame([(path,)], "path string").coalesce(1)
    return one.mapInArrow(_read, "value binary")


def _read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path in batch.column("path").to_pylist():
            system, inner = file_system_of(path)
            with system.open_input_stream(inner, compression=None) as file:
                lines: list[bytes] = []
                for line in lines_in(file):
                    lines.append(line)
                    if len(lines) == LINES_PER_BATCH:
                        yield pa.record_batch([pa.array(lines, pa.binary())], schema=_SCHEMA)
                        lines = []
                yield pa.record_batch([pa.array(lines, pa.binary())], schema=_SCHEMA)


def lines_in(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a compressed file, without their ends."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)
    rest = b""
    with decompressor.stream_reader(file, read_across_frames=True) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
            if len(rest) > LINE_BYTES_MAX:
                yield rest
                rest = b""
    if rest:
        yield rest
