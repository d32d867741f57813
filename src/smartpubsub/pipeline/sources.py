"""Files of data as DataFrames that look alike, whatever their format.

The columns are `source` (the file), `position` (the place in it), `line` (as it is there, if it
has lines), `fields` (the mapped columns as texts), and `problem` (why they could not be read).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from smartpubsub.pipeline.errors import PipelineError, told_plainly
from smartpubsub.pipeline.folders import Folder, require
from smartpubsub.pipeline.local_inputs import empty_text, is_hidden
from smartpubsub.pipeline.mapping import ColumnMapping, Format
from smartpubsub.pipeline.zst import zst_lines

COLUMNS = ("source", "position", "line", "fields", "problem")
_COMPRESSED = (".gz", ".bz2", ".zst")
_CORRUPT = "_corrupt_record"
_BEGINS = "_metadata.file_block_start"
_NUMBER_IN_TASK = (1 << 33) - 1


class Source(NamedTuple):
    """A file to read."""

    name: str
    """What it is called in the table: its name, or its path within the folder that was given."""
    path: str
    format: Format


def find_sources(
    spark: SparkSession, paths: Sequence[str], mapping: ColumnMapping | None
) -> list[Source]:
    """The files that are meant, also those in folders; raise PipelineError if there are none."""
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


def read_sources(
    spark: SparkSession, sources: Sequence[Source], mapping: ColumnMapping
) -> DataFrame:
    """All sources together."""
    readers = {"json": _json_lines, "csv": _csv, "parquet": _parquet}
    with told_plainly():
        frames = [
            readers[source.format](spark, source, mapping)
            .withColumn("source", sf.lit(source.name))
            .select(*COLUMNS)
            for source in sources
        ]
        return reduce(DataFrame.unionByName, frames)


def _json_lines(spark: SparkSession, source: Source, mapping: ColumnMapping) -> DataFrame:
    schema = StructType([*_texts(mapping.columns()), StructField(_CORRUPT, StringType())])
    options = {"columnNameOfCorruptRecord": _CORRUPT}
    if source.path.endswith(".zst"):
        line = sf.col("value").cast("string")
        # A list of one to unfold, or Spark would read the line again for every field.
        parsed = sf.inline(sf.array(sf.from_json(line, schema, options)))
        lines = zst_lines(spark, source.path).where(sf.length(sf.trim(line)) > 0)
        rows = lines.select(line.alias("given"), _place(sf.lit(0)), parsed)
        # Text that is not UTF-8 would be mended without a word.
        corrupt = sf.when(sf.is_valid_utf8("given"), sf.col(_CORRUPT)).otherwise(sf.col("given"))
        rows = rows.withColumn(_CORRUPT, corrupt)
    else:
        rows = spark.read.options(**options).json(source.path, schema=schema)
        rows = rows.select("*", _place(sf.col(_BEGINS)))
    return rows.select(
        "position",
        sf.col(_CORRUPT).alias("line"),
        _fields(mapping),
        sf.when(~sf.is_valid_utf8(_CORRUPT), "not UTF-8")
        .when(sf.col(_CORRUPT).isNotNull(), "not a JSON object")
        .alias("problem"),
    )


def _csv(spark: SparkSession, source: Source, mapping: ColumnMapping) -> DataFrame:
    if source.path.endswith(".zst"):
        raise PipelineError(f"{source.name}: CSV is read plain, .gz or .bz2; decompress it first")
    separator = "\t" if ".tsv" in source.name else ","
    options = {"header": "true", "sep": separator, "escape": '"'}
    header = spark.read.options(**options).csv(source.path).columns
    _require_columns(source, header, mapping)
    schema = StructType([*_texts(header), StructField(_CORRUPT, StringType())])
    rows = spark.read.options(columnNameOfCorruptRecord=_CORRUPT, **options).csv(
        source.path, schema=schema
    )
    return rows.select(
        _place(sf.col(_BEGINS)),
        sf.col(_CORRUPT).alias("line"),
        _fields(mapping),
        sf.when(
            sf.col(_CORRUPT).isNotNull(), f"not a row of the {len(header)} columns of the header"
        ).alias("problem"),
    )


def _parquet(spark: SparkSession, source: Source, mapping: ColumnMapping) -> DataFrame:
    rows = spark.read.parquet(source.path)
    _require_columns(source, rows.columns, mapping)
    texts = []
    for name in mapping.columns():
        column = sf.col(f"`{name}`")
        nested = isinstance(rows.schema[name].dataType, ArrayType | MapType | StructType)
        texts.append((sf.to_json(column) if nested else column.cast("string")).alias(name))
    return rows.select(
        _place(sf.lit(0), sf.col("_metadata.row_index")),
        sf.lit(None).cast("string").alias("line"),
        sf.struct(*texts).alias("fields"),
        sf.lit(None).cast("string").alias("problem"),
    )


def _place(begins: Column, number: Column | None = None) -> Column:
    """Where a row lies: where the part begins in which it was read, and its number in that.

    Parts depend on nothing but the file, see `session.FILE_PARTS`, and each is a task's own.
    """
    if number is None:
        number = sf.monotonically_increasing_id().bitwiseAND(_NUMBER_IN_TASK)
    place = sf.struct(begins.cast("bigint").alias("begins"), number.alias("number"))
    return place.alias("position")


def _texts(names: Sequence[str]) -> list[StructField]:
    return [StructField(name, StringType()) for name in names]


def _fields(mapping: ColumnMapping) -> Column:
    return sf.struct(*(sf.col(f"`{name}`") for name in mapping.columns())).alias("fields")


def _require_columns(source: Source, header: Sequence[str], mapping: ColumnMapping) -> None:
    for name in mapping.columns():
        if name not in header:
            raise PipelineError(
                f"{source.name} has no column {name!r}, only {', '.join(header)};"
                " change the mapping"
            )
