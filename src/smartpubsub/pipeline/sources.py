"""Files of data as DataFrames of judged rows, whatever their format.

Spark reads the lines and divides them among tasks; zstd files are read by the tasks.
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

from smartpubsub.pipeline.errors import PipelineError, told_plainly
from smartpubsub.pipeline.folders import Folder, MaybeSpark, file_system_of, require
from smartpubsub.pipeline.ingest import JUDGED, Judge, Numbers
from smartpubsub.pipeline.ingest_files import WRITTEN, Batches, Row, writing
from smartpubsub.pipeline.local_inputs import empty_text, is_hidden
from smartpubsub.pipeline.mapping import ColumnMapping, Format
from smartpubsub.pipeline.parsing import CsvParser, JsonParser, Parsed, Parser, header_of
from smartpubsub.pipeline.zst import lines_in

_COMPRESSED = (".gz", ".bz2", ".zst")
_BEGINS = "_metadata.file_block_start"
_HEADER_LINES_MAX = 1_000
"""The header of a CSV file is among so many lines; others before it are blank."""


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
    """What tasks read of a source, and how they judge it."""

    rows: DataFrame
    judged: Callable[[Batches], Batches]


def judged_sources(
    spark: SparkSession, sources: Sequence[Source], mapping: ColumnMapping, salt: str | None
) -> DataFrame:
    """All rows of all sources as records, with a reason and the line if they are bad."""
    with told_plainly():
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
    with told_plainly():
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
    if source.path.endswith(".zst"):
        one = spark.createDataFrame([(source.path,)], "path string").coalesce(1)
        return Judging(one, _judging_packed(parser, judge))
    return Judging(_text(spark, source), _judging(parser, judge))


def _csv(spark: SparkSession, source: Source, mapping: ColumnMapping, judge: Judge) -> Judging:
    refuse_packed_csv(source)
    text = _text(spark, source)
    first = [bytes(row["value"]) for row in text.limit(_HEADER_LINES_MAX).collect()]
    header, skipped = csv_header(source, first, mapping)
    parser = partial(CsvParser, mapping.columns(), header, separator_of(source))
    return Judging(text, _judging(parser, judge, skipped))


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
        raise PipelineError(f"{source.name}: its first line is not a header of CSV") from None
    if header:
        _require_columns(source, header, mapping)
    return header, skipped


def separator_of(source: Source) -> str:
    """What separates the cells of a CSV file."""
    return "\t" if ".tsv" in source.name else ","


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


def _judging_packed(parser: Callable[[], Parser], judge: Judge) -> Callable[[Batches], Batches]:
    """Judge the lines of zstd files, given by their paths."""

    def judged(batches: Batches) -> Batches:
        for path in (path for batch in batches for path in batch.column("path").to_pylist()):
            lines = Lines(parser(), judge)
            system, inner = file_system_of(path)
            with system.open_input_stream(inner, compression=None) as file:
                yield from map(lines.judged, lines_in(file))

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
