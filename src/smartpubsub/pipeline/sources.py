"""Files of data as DataFrames of judged rows, whatever their format.

Tasks read the lines of plain files and of zstd files themselves. Spark reads other lines, and
divides them among tasks.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, MapType, StructType

from smartpubsub.pipeline.errors import PipelineError, plain_errors
from smartpubsub.pipeline.folders import Folder, MaybeSpark, file_system_of, open_file, require
from smartpubsub.pipeline.ingest import JUDGED, Judge, Numbers
from smartpubsub.pipeline.ingest_files import WRITTEN, Batches, Row, writing
from smartpubsub.pipeline.lines import CHUNK_BYTES, lines_between, lines_in
from smartpubsub.pipeline.local_inputs import empty_text, is_hidden
from smartpubsub.pipeline.mapping import ColumnMapping, Format
from smartpubsub.pipeline.parsing import CsvParser, JsonParser, Parsed, Parser, header_of
from smartpubsub.pipeline.sessions import FILE_PARTS

_COMPRESSED = (".gz", ".bz2", ".zst")
_BEGINS = "_metadata.file_block_start"
PART_BYTES_MIN, PART_BYTES_MAX = 4 << 20, 128 << 20
_HEADER_LINES_MAX = 1_000
"""The header of a CSV file is the first line that is not blank, within so many lines."""


class Source(NamedTuple):
    """A file to read."""

    name: str
    """Its name in the table: the file name, or the path within the given folder."""
    path: str
    format: Format


def find_sources(
    spark: MaybeSpark, paths: Sequence[str], mapping: ColumnMapping | None
) -> list[Source]:
    """The files at paths, including those in folders; raise PipelineError if there are none."""
    found: dict[str, Source] = {}
    for path in paths:
        folder = Folder(spark, path)
        require(folder, "files of data")
        names = [*_names(folder)]
        if not names:
            raise PipelineError(empty_text(path, "files of data"))
        for name, full in names:
            source = Source(name, full, _format(name, mapping))
            if found.setdefault(name, source).path != full:
                raise PipelineError(
                    f"{path}: there are two sources called {name!r}; rename one, or write them"
                    " to different folders"
                )
    return sorted(found.values())


def _names(folder: Folder) -> Iterator[tuple[str, str]]:
    for full in folder.files():
        name = full.removeprefix(folder.full_path).strip("/")
        if not any(map(is_hidden, name.split("/"))):
            yield name.replace("/", ":") or full.rsplit("/", 1)[-1], full


def _format(name: str, mapping: ColumnMapping | None) -> Format:
    if mapping is not None and mapping.format is not None:
        return mapping.format
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    if name.endswith(".parquet"):
        return "parquet"
    return "csv" if name.endswith((".csv", ".tsv")) else "json"


class Judging(NamedTuple):
    """The reading and judging of a source in tasks."""

    rows: DataFrame
    judged: Callable[[Batches], Batches]


def judged_sources(
    spark: SparkSession, sources: Sequence[Source], mapping: ColumnMapping, salt: str | None
) -> DataFrame:
    """All rows of all sources as records, with a reason and the line if they are bad."""
    with plain_errors():
        frames = [
            judging.rows.mapInArrow(judging.judged, JUDGED).withColumn(
                "source", sf.lit(source.name)
            )
            for source, judging in _judgings(spark, sources, mapping, salt)
        ]
        return reduce(DataFrame.unionByName, frames)


def written_sources(
    spark: SparkSession,
    sources: Sequence[Source],
    mapping: ColumnMapping,
    salt: str | None,
    folder: Path,
) -> list[Row]:
    """Have tasks write the rows of all sources to files in a folder that all machines share."""
    with plain_errors():
        frames = [
            judging.rows.mapInArrow(writing(judging.judged, source.name, folder), WRITTEN)
            for source, judging in _judgings(spark, sources, mapping, salt)
        ]
        return [row.asDict() for row in reduce(DataFrame.unionByName, frames).collect()]


def _judgings(
    spark: SparkSession, sources: Sequence[Source], mapping: ColumnMapping, salt: str | None
) -> Iterator[tuple[Source, Judging]]:
    readers = {"json": _json, "csv": _csv, "parquet": _parquet}
    for source in sources:
        judge = Judge(source.name, mapping, salt)
        yield source, readers[source.format](spark, source, mapping, judge)


class Lines:
    """Judges the lines of a part of a source, in their order."""

    def __init__(self, parser: Parser, judge: Judge, begins: int = 0) -> None:
        self._parser = parser
        self._judge = judge
        self._begins = begins
        self._count = 0

    def judged(self, lines: pa.Array) -> pa.RecordBatch:
        """The next lines."""
        parsed = self._parser(lines)
        numbers = np.arange(self._count, self._count + len(parsed.lines))
        self._count += len(numbers)
        return self._judge.judged(parsed, [np.full(len(numbers), self._begins), numbers])


def _json(spark: SparkSession, source: Source, mapping: ColumnMapping, judge: Judge) -> Judging:
    # Parsers cannot be sent to tasks.
    parser = partial(JsonParser, mapping.columns())
    return _judging_lines(spark, source, parser, judge)


def _csv(spark: SparkSession, source: Source, mapping: ColumnMapping, judge: Judge) -> Judging:
    refuse_packed_csv(source)
    header, skipped = csv_header(source, _first_lines(spark, source), mapping)
    parser = partial(CsvParser, mapping.columns(), header, separator_of(source))
    return _judging_lines(spark, source, parser, judge, skipped)


def _first_lines(spark: SparkSession, source: Source) -> Sequence[bytes]:
    if _is_opened_by_tasks(source):
        with open_file(source.path) as file:
            found: list[bytes] = next(lines_between(file, 0, CHUNK_BYTES), pa.array([])).to_pylist()
        return found[:_HEADER_LINES_MAX]
    rows = _text(spark, source).limit(_HEADER_LINES_MAX).collect()
    return [bytes(row["value"]) for row in rows]


def refuse_packed_csv(source: Source) -> None:
    """Raise an error for CSV in a zstd file, of which a task could not tell which line is first."""
    if source.format == "csv" and source.path.endswith(".zst"):
        raise PipelineError(f"{source.name}: CSV is read plain, .gz or .bz2; decompress it first")


def csv_header(
    source: Source, lines: Sequence[bytes], mapping: ColumnMapping
) -> tuple[Sequence[str], int]:
    """The header of a CSV file, and after how many lines the rows begin."""
    try:
        header, skipped = header_of(lines, separator_of(source))
    except (UnicodeDecodeError, csv.Error):
        raise PipelineError(
            f"{source.name}: its first line is not a header of CSV; give a file whose first line"
            " names the columns"
        ) from None
    if header:
        _require_columns(source, header, mapping)
    return header, skipped


def separator_of(source: Source) -> str:
    """The separator of the cells of a CSV file."""
    return "\t" if ".tsv" in source.name else ","


class Part(NamedTuple):
    """A part of a file that a task reads."""

    path: str
    start: int
    end: int


def parts_of(path: str, size: int) -> list[Part]:
    """Divide a plain file, as Spark divides files that it reads with our settings.

    >>> [part.start for part in parts_of("file:/a", 9 << 20)]
    [0, 4194304, 8388608]
    """
    length = min(PART_BYTES_MAX, max(PART_BYTES_MIN, (size + PART_BYTES_MIN) // FILE_PARTS))
    return [Part(path, start, min(start + length, size)) for start in range(0, size, length)]


def _is_opened_by_tasks(source: Source) -> bool:
    is_plain = source.path.startswith("file:") and not source.path.endswith(_COMPRESSED)
    return is_plain or source.path.endswith(".zst")


def _judging_lines(
    spark: SparkSession,
    source: Source,
    parser: Callable[[], Parser],
    judge: Judge,
    skipped: int = 0,
) -> Judging:
    """Judge lines, except the first of a file."""
    if not _is_opened_by_tasks(source):
        return Judging(_text(spark, source), _judging(parser, judge, skipped))
    system, inner = file_system_of(source.path)
    size = system.get_file_info(inner).size
    is_packed = source.path.endswith(".zst")
    parts = [Part(source.path, 0, size)] if is_packed else parts_of(source.path, size)
    # One task for each part, identified by its number.
    tasks = spark.range(len(parts), numPartitions=max(len(parts), 1))
    return Judging(tasks, _judging_parts(parts, parser, judge, skipped))


def _text(spark: SparkSession, source: Source) -> DataFrame:
    """The lines of a file, and where in it the part begins that a task reads.

    Parts depend only on the file, see `sessions.FILE_PARTS`, and each has its own task.
    """
    rows = spark.read.text(source.path)
    return rows.select(sf.col("value").cast("binary"), sf.col(_BEGINS).alias("begins"))


def _judging(
    parser: Callable[[], Parser], judge: Judge, skipped: int = 0
) -> Callable[[Batches], Batches]:
    """Judge the lines of a part, except the first of a file."""

    def judged(batches: Batches) -> Batches:
        part: Lines | None = None
        for batch in batches:
            lines, begins = batch.column("value"), batch.column("begins")[0].as_py()
            if part is None:
                part = Lines(parser(), judge, begins)
                lines = lines.slice(0 if begins else skipped)
            yield part.judged(lines)

    return judged


def _judging_parts(
    parts: Sequence[Part], parser: Callable[[], Parser], judge: Judge, skipped: int
) -> Callable[[Batches], Batches]:
    """Judge the lines of parts that tasks open, given by their numbers."""

    def judged(batches: Batches) -> Batches:
        for number in (number for batch in batches for number in batch.column("id").to_pylist()):
            part = parts[number]
            own = Lines(parser(), judge, part.start)
            left_out = 0 if part.start else skipped
            with open_file(part.path) as file:
                is_packed = part.path.endswith(".zst")
                found = lines_in(file) if is_packed else lines_between(file, part.start, part.end)
                for lines in found:
                    yield own.judged(lines.slice(left_out))
                    left_out = max(0, left_out - len(lines))

    return judged


def _parquet(spark: SparkSession, source: Source, mapping: ColumnMapping, judge: Judge) -> Judging:
    rows = spark.read.parquet(source.path)
    _require_columns(source, rows.columns, mapping)
    texts = []
    for name in mapping.columns():
        column = sf.col(f"`{name}`")
        nested = isinstance(rows.schema[name].dataType, ArrayType | MapType | StructType)
        texts.append((sf.to_json(column) if nested else column.cast("string")).alias(name))
    number = sf.col("_metadata.row_index").alias("number")
    fields = rows.select(number, sf.struct(*texts).alias("fields"))

    def judged(batches: Batches) -> Batches:
        for batch in batches:
            numbers: Numbers = batch.column("number").to_numpy()
            rows = batch.column("fields").to_pylist()
            columns = {name: [row[name] for row in rows] for name in mapping.columns()}
            lines = [_object(row) for row in rows]
            yield judge.judged(Parsed(columns, lines, {}), [np.zeros_like(numbers), numbers])

    return Judging(fields, judged)


def _object(row: dict[str, str | None]) -> bytes:
    """The mapped columns of a row as JSON."""
    there = {name: text for name, text in row.items() if text is not None}
    return json.dumps(there, ensure_ascii=False, separators=(",", ":")).encode()


def _require_columns(source: Source, header: Sequence[str], mapping: ColumnMapping) -> None:
    for name in mapping.columns():
        if name not in header:
            raise PipelineError(
                f"{source.name} has no column {name!r}, only {', '.join(header)};"
                " change the mapping"
            )
