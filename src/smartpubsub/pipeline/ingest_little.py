"""The stage `ingest` on little data, without Spark: the same judgements in this process."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Iterator, Sequence
from io import BufferedIOBase, BytesIO
from pathlib import Path

import pyarrow as pa
import zstandard

from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.pipeline.folders import open_file
from smartpubsub.pipeline.ingest import Judge
from smartpubsub.pipeline.lines import lines_in
from smartpubsub.pipeline.mapping import ColumnMapping
from smartpubsub.pipeline.parsing import CsvParser, JsonParser, Parser
from smartpubsub.pipeline.sources import (
    Lines,
    Source,
    csv_header,
    refuse_packed_csv,
    separator_of,
)

BYTES_MAX = 16 << 20
"""The decompressed size of a file; larger ones need Spark."""


class TooMuchError(Exception):
    """A small file that becomes large."""


def judged_here(
    sources: Sequence[Source], mapping: ColumnMapping, salt: str | None
) -> dict[str, pa.RecordBatch] | None:
    """The judged rows of each source, by its name; None if that takes Spark."""
    found = {}
    for source in sources:
        if source.format == "parquet" or not source.path.startswith("file:"):
            return None
        try:
            lines = _lines(source)
        except TooMuchError:
            return None
        parser, skipped = _parser(source, lines, mapping)
        part = Lines(parser, Judge(source.name, mapping, salt))
        found[source.name] = part.judged(lines.slice(skipped))
    return found


def _parser(source: Source, lines: pa.Array, mapping: ColumnMapping) -> tuple[Parser, int]:
    if source.format == "json":
        return JsonParser(mapping.columns()), 0
    header, skipped = csv_header(source, lines.to_pylist(), mapping)
    return CsvParser(mapping.columns(), header, separator_of(source)), skipped


def _lines(source: Source) -> pa.Array:
    if source.path.endswith(".zst"):
        refuse_packed_csv(source)
    with open_file(source.path) as file:
        content = BytesIO(file.read())
    try:
        if source.path.endswith(".zst"):
            return _together(lines_in(content))
        whole = _opened(content, Path(source.path).suffix).read(BYTES_MAX + 1)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise PipelineError(
            f"{source.name} cannot be decompressed: {error}; fetch the file again"
        ) from None
    if len(whole) > BYTES_MAX:
        raise TooMuchError
    return pa.array(whole.splitlines(), pa.binary())


def _together(chunks: Iterator[pa.Array]) -> pa.Array:
    found, size = [pa.array([], pa.binary())], 0
    for lines in chunks:
        found.append(lines)
        size += lines.nbytes
        if size > BYTES_MAX:
            raise TooMuchError
    return pa.concat_arrays(found)


def _opened(content: BytesIO, ending: str) -> BufferedIOBase:
    if ending == ".gz":
        return gzip.GzipFile(fileobj=content)
    return bz2.BZ2File(content) if ending == ".bz2" else content
