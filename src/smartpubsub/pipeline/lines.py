"""Lines of files, many at once, read by the tasks themselves.

Spark reads no zstd file with a long window. It would also turn each line into a row, and these rows
into a column for Python, which takes longer than parsing the lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import zstandard

from smartpubsub.pipeline.byte_slices import Places, slices

WINDOW_BYTES_MAX = 1 << 31
"""The window of large public dumps."""
CHUNK_BYTES = 1 << 22
BEYOND_BYTES = 1 << 16
"""How much is read at once beyond the end of a part, for the rest of its last line."""
LINES_PER_BATCH = 10_000
LINE_BYTES_MAX = 64 << 20
"""A longer line is cut into pieces, which all count as bad lines."""

_NEWLINE, _RETURN = b"\n\r"


class _Lines(NamedTuple):
    lines: pa.Array
    begins: Places
    """Where in the file each line begins."""


def lines_in(file: BinaryIO) -> Iterator[pa.Array]:
    """The lines of a file that is compressed with zstd, without their ends."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)
    with decompressor.stream_reader(file, read_across_frames=True) as stream:
        for found in _whole_lines(iter(lambda: stream.read(CHUNK_BYTES), b""), 0):
            yield from _batches(found.lines)


def lines_between(file: BinaryIO, start: int, end: int) -> Iterator[pa.Array]:
    """The lines of a part of a file, without their ends.

    As in Hadoop, a part leaves the line in which it begins to the part before it, also if the line
    begins just there. So the parts of a file together have each line once.
    """
    file.seek(start)
    is_cut = start > 0
    for found in _whole_lines(_chunks(file, end - start), start):
        first, is_cut = int(is_cut), False
        last = int(np.searchsorted(found.begins, end, side="right"))
        yield from _batches(found.lines.slice(first, max(0, last - first)))
        if last < len(found.begins):
            return


def _chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    while chunk := file.read(min(CHUNK_BYTES, size) if size > 0 else BEYOND_BYTES):
        size -= len(chunk)
        yield chunk


def _batches(lines: pa.Array) -> Iterator[pa.Array]:
    for start in range(0, len(lines), LINES_PER_BATCH):
        yield lines.slice(start, LINES_PER_BATCH)


def _whole_lines(chunks: Iterator[bytes], place: int) -> Iterator[_Lines]:
    """The lines in chunks of a file, of which the first is at a place in it."""
    rest = b""
    for chunk in chunks:
        content = rest + chunk
        starts, ends = _bounds(content)
        rest = content[starts[-1] :]
        if len(starts) > 1:
            yield _Lines(slices(content, starts[:-1], ends), place + starts[:-1])
        place += int(starts[-1])
        if len(rest) > LINE_BYTES_MAX:
            yield _Lines(pa.array([rest], pa.binary()), np.array([place]))
            place, rest = place + len(rest), b""
    if rest:
        # A return at the end may be the first half of a line end.
        yield _Lines(pa.array([rest.removesuffix(b"\r")], pa.binary()), np.array([place]))


def _bounds(content: bytes) -> tuple[Places, Places]:
    """The starts of lines, and the ends of complete ones; there is one more start than ends.

    Lines end with a newline, a return, or both.
    """
    letters = np.frombuffer(content, np.uint8)
    newlines = np.flatnonzero(letters == _NEWLINE)
    if b"\r" not in content:
        return np.concatenate([[0], newlines + 1]), newlines
    returns = np.flatnonzero(letters[:-1] == _RETURN)
    alone = returns[letters[returns + 1] != _NEWLINE]
    lasts = np.sort(np.concatenate([newlines, alone]))
    is_double = (letters[lasts] == _NEWLINE) & (lasts > 0) & (letters[lasts - 1] == _RETURN)
    return np.concatenate([[0], lasts + 1]), lasts - is_double
