"""Lines of zstd files with a window longer than Spark's reader allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import zstandard

from smartpubsub.pipeline.byte_slices import slices

WINDOW_BYTES_MAX = 1 << 31
"""The window of large public dumps."""
CHUNK_BYTES = 1 << 22
LINES_PER_BATCH = 10_000
LINE_BYTES_MAX = 64 << 20
"""A longer line is cut into pieces, which all count as bad lines."""

_NEWLINE = ord("\n")


def lines_in(file: BinaryIO) -> Iterator[pa.Array]:
    """The lines of a compressed file, without their ends, many at once."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)
    rest = b""
    with decompressor.stream_reader(file, read_across_frames=True) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            content = rest + chunk
            ends = np.flatnonzero(np.frombuffer(content, np.uint8) == _NEWLINE)
            starts = np.concatenate([[0], ends + 1])
            rest = content[starts[-1] :]
            lines = slices(content, starts[:-1], ends)
            for start in range(0, len(lines), LINES_PER_BATCH):
                yield lines.slice(start, LINES_PER_BATCH)
            if len(rest) > LINE_BYTES_MAX:
                yield pa.array([rest], pa.binary())
                rest = b""
    if rest:
        yield pa.array([rest], pa.binary())
