"""Files of data as DataFrames with the same columns, whatever their format.

The columns are `source` (the file), `position` (the place in it), `line` (the original line, if
known), `fields` (the mapped columns as texts), and `problem` (why they could not be read).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
_MARK = "\ufeff"
_BLANKS_OF_JSON = " \t\r\n"
_BLANKS_OF_CSV = "".join(map(chr, range(33)))


class Source(NamedTuple):
    """A file to read."""

    name: str
    """Its name in the table: the file name, or the path within the given folder."""
    path: str
    format: Format


def find_sources(
    spark: SparkSession, paths: Sequence[str], mapping: ColumnMapping | None
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


def read_sources(
    spark: SparkSession,
    sources: Sequence[Source],
    mapping: ColumnMapping,
    *,
    with_lines: bool = False,
) -> DataFrame:
    """All sources together; optionally with original lines, of which the fast readers keep only
    some."""
    readers = {"json": _json, "csv": _csv, "parquet": _parquet}
    with told_plainly():
        frames = [
            readers[source.format](spark, source, mapping, with_lines)
            .withColumn("source", sf.lit(source.name))
            .select(*COLUMNS)
            for source in sources
        ]
        return reduce(DataFrame.unionByName, frames)


def _json(
    spark: SparkSession, source: Source, mapping: ColumnMapping, with_lines: bool
) -> DataFrame:
    schema = StructType([*_texts(mapping.columns()), StructField(_CORRUPT, StringType())])
    options = {"columnNameOfCorruptRecord": _CORRUPT}
    if with_lines or source.path.endswith(".zst"):
        objects = _lines(spark, source, _BLANKS_OF_JSON, _objects)
        rows = _taken_apart(objects, sf.from_json("line", schema, options), mapping)
        # Text that is not UTF-8 would be silently repaired.
        is_valid = sf.is_valid_utf8("line")
        rows = rows.withColumn(
            "corrupt", sf.when(is_valid, sf.col("corrupt")).otherwise(sf.col("line"))
        )
    else:
        rows = _as_read(spark.read.options(**options).json(source.path, schema=schema), mapping)
    problem = sf.when(~sf.is_valid_utf8("corrupt"), "not UTF-8").when(
        sf.col("corrupt").isNotNull(), "not a JSON object"
    )
    return rows.withColumn("problem", problem)


def _objects(line: Column) -> Column:
    """The texts of the objects in a line: itself, or several if it is a list of objects.

    Spark's JSON reader does the same with such a list, and ignores a byte order mark.
    """
    is_marked = line.startswith(f"{_MARK}{{") | line.startswith(f"{_MARK}[")
    line = sf.when(is_marked, sf.substr(line, sf.lit(2))).otherwise(line)
    is_list = sf.ltrim(line, sf.lit(_BLANKS_OF_JSON)).startswith("[") & sf.is_valid_utf8(line)
    several = sf.when(is_list, sf.from_json(line, "array<string>"))
    are_objects = sf.forall(several, lambda one: one.startswith("{"))
    return sf.when(are_objects, several).otherwise(sf.array(line))


def _csv(
    spark: SparkSession, source: Source, mapping: ColumnMapping, with_lines: bool
) -> DataFrame:
    if source.path.endswith(".zst"):
        raise PipelineError(f"{source.name}: CSV is read plain, .gz or .bz2; decompress it first")
    separator = "\t" if ".tsv" in source.name else ","
    options = {"header": "true", "sep": separator, "escape": '"'}
    header = spark.read.options(**options).csv(source.path).columns
    _require_columns(source, header, mapping)
    schema = StructType([*_texts(header), StructField(_CORRUPT, StringType())])
    options["columnNameOfCorruptRecord"] = _CORRUPT
    if with_lines:
        is_header = (sf.col("position.begins") == 0) & (sf.col("position.number") == 0)
        lines = _lines(spark, source, _BLANKS_OF_CSV, sf.array).where(~is_header)
        rows = _taken_apart(lines, sf.from_csv("line", sf.lit(schema.toDDL()), options), mapping)
    else:
        rows = _as_read(spark.read.options(**options).csv(source.path, schema=schema), mapping)
    problem = f"not a row of the {len(header)} columns of the header"
    return rows.withColumn("problem", sf.when(sf.col("corrupt").isNotNull(), problem))


def _as_read(rows: DataFrame, mapping: ColumnMapping) -> DataFrame:
    """The output of a Spark reader, with the original line where it is corrupt."""
    corrupt = sf.col(_CORRUPT)
    return rows.select(
        _place(sf.col(_BEGINS)), corrupt.alias("line"), corrupt.alias("corrupt"), _fields(mapping)
    )


def _lines(
    spark: SparkSession, source: Source, blanks: str, parts: Callable[[Column], Column]
) -> DataFrame:
    """All lines that are not blank, with their positions."""
    if source.path.endswith(".zst"):
        rows, begins = zst_lines(spark, source.path), sf.lit(0)
    else:
        rows, begins = spark.read.text(source.path), sf.col(_BEGINS)
    line = sf.col("value").cast("string")
    found = rows.select(begins.alias("begins"), sf.explode(parts(line)).alias("line"))
    is_blank = sf.ltrim("line", sf.lit(blanks)) == ""
    return found.where(~is_blank).select("line", _place(sf.col("begins")))


def _taken_apart(lines: DataFrame, parsed: Column, mapping: ColumnMapping) -> DataFrame:
    """The output of a parser for lines."""
    # Exploding a list of one keeps Spark from parsing the line again for every field.
    rows = lines.select("position", "line", sf.explode(sf.array(parsed)).alias("row"))
    corrupt = sf.col(f"row.{_CORRUPT}").alias("corrupt")
    return rows.select("position", "line", corrupt, _fields(mapping, "row."))


def _parquet(
    spark: SparkSession, source: Source, mapping: ColumnMapping, _with_lines: bool
) -> DataFrame:
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
    """The position of a row: the beginning of the part in which it was read, and its number there.

    Parts depend only on the file, see `sessions.FILE_PARTS`, and each has its own task.
    """
    if number is None:
        number = sf.monotonically_increasing_id().bitwiseAND(_NUMBER_IN_TASK)
    place = sf.struct(begins.cast("bigint").alias("begins"), number.alias("number"))
    return place.alias("position")


def _texts(names: Sequence[str]) -> list[StructField]:
    return [StructField(name, StringType()) for name in names]


def _fields(mapping: ColumnMapping, within: str = "") -> Column:
    return sf.struct(*(sf.col(f"{within}`{name}`") for name in mapping.columns())).alias("fields")


def _require_columns(source: Source, header: Sequence[str], mapping: ColumnMapping) -> None:
    for name in mapping.columns():
        if name not in header:
            raise PipelineError(
                f"{source.name} has no column {name!r}, only {', '.join(header)};"
                " change the mapping"
            )
