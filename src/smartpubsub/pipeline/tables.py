"""Tables in folders, of Parquet or Delta: read with a check of their columns."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    FloatType,
    IntegerType,
    ShortType,
    StructType,
)

from smartpubsub.pipeline.errors import PipelineError, plain_errors
from smartpubsub.pipeline.folders import Folder, MaybeSpark, open_file, require
from smartpubsub.pipeline.local_inputs import empty_text, is_hidden
from smartpubsub.pipeline.outputs import is_delta, read_written
from smartpubsub.pipeline.schemas import Table

_WIDENED = {
    "bigint": (ByteType(), ShortType(), IntegerType()),
    "int": (ByteType(), ShortType()),
    "double": (FloatType(),),
}


def read_table(
    spark: SparkSession, path: str, table: Table, columns: Sequence[str] | None = None
) -> DataFrame:
    """Read the columns that a stage needs of a table, by default all.

    Other columns may exist as well. A nullable column may be absent.
    """
    if is_delta(spark, path):
        frame = read_written(spark, path, table.schema, is_known_delta=True)
    else:
        require_table(spark, path, table)
        with plain_errors():
            frame = spark.read.parquet(Folder(spark, path).full_path)
    return conforming(frame, table, columns or table.names, place=path)


def require_table(spark: MaybeSpark, path: str, table: Table) -> None:
    """Raise an error unless there is a folder with Parquet and nothing else."""
    folder = Folder(spark, path)
    require(folder, f"a table of {table.name}")
    files = [*folder.data_files()]
    if not files:
        raise PipelineError(empty_text(path, f"a table of {table.name}"))
    other = next((f for f in files if not f.endswith(".parquet")), None)
    if other is not None:
        raise PipelineError(
            f"{other.removeprefix('file:')} is not Parquet; give the folder of a table of"
            f" {table.name}, which has nothing else"
        )


def conforming(frame: DataFrame, table: Table, columns: Sequence[str], *, place: str) -> DataFrame:
    """The declared columns of a table, in their declared types; raise PipelineError if missing.

    `place` is the origin of the table, for the error.
    """
    check_columns(frame.schema, table, columns, place=place)
    return frame.select(
        *(
            (sf.col(column.name) if column.name in frame.columns else sf.lit(None))
            .cast(column.type)
            .alias(column.name)
            for column in map(table.column, columns)
        )
    )


def check_columns(schema: StructType, table: Table, columns: Sequence[str], *, place: str) -> None:
    """Raise an error if a column is missing or has another type."""
    for column in map(table.column, columns):
        if column.name in schema.names:
            found = schema[column.name].dataType
            if not _fits(found, column.type):
                raise PipelineError(
                    f"{place} is not a table of {table.name}: its column {column.name!r} is"
                    f" {found.simpleString()}, not {column.type.simpleString()}"
                )
        elif not column.is_nullable:
            raise PipelineError(
                f"{place} is not a table of {table.name}: it has no column {column.name!r},"
                f" only {', '.join(schema.names) or 'none at all'}"
            )


def read_files(
    spark: MaybeSpark, path: str, table: Table, columns: Sequence[str]
) -> dict[str, pa.Table] | None:
    """Read the columns that a stage needs of a table without Spark, by file.

    None if that takes Spark: the files are not plain, in the Delta format, or cannot be read.
    """
    folder = Folder(spark, path)
    if not folder.has_plain_files or is_delta(spark, path):
        return None
    require_table(spark, path, table)
    declared = to_arrow_schema(table.schema, timezone="UTC")
    found = {}
    for file in folder.data_files():
        # Spark makes columns of such folders.
        if any(f"/{name}=" in file.removeprefix(folder.full_path) for name in columns):
            return None
        try:
            with open_file(file) as opened:
                parquet = pq.ParquetFile(opened)
                schema = from_arrow_schema(parquet.schema_arrow)
                check_columns(schema, table, columns, place=path)
                rows = parquet.read([name for name in columns if name in schema.names])
            arrays = [
                rows.column(name).cast(declared.field(name).type)
                if name in schema.names
                else pa.nulls(len(rows), declared.field(name).type)
                for name in columns
            ]
        except (pa.ArrowException, PySparkException):
            return None
        found[file] = pa.Table.from_arrays(arrays, names=[*columns])
    return found


def check_output(spark: MaybeSpark, path: str, inputs: Sequence[str] = ()) -> None:
    """Raise an error if writing a table here would destroy something else."""
    folder = Folder(spark, path)
    for given in inputs:
        other = Folder(spark, given).full_path
        if _lies_in(folder.full_path, other) or _lies_in(other, folder.full_path):
            raise PipelineError(f"{path} would overwrite {given}, which is read; choose another")
    above = path.rstrip("/").rpartition("/")[0]
    for place in filter(None, (above, path)):
        if Folder(spark, place).is_file():
            raise PipelineError(f"{place} is a file; choose a folder")
    if folder.has_plain_files:
        there = next(place for place in _upward(folder.local_path) if place.exists())
        if not os.access(there, os.W_OK):
            raise PipelineError(
                f"{path}: {there} cannot be written; change its permissions, or choose another"
                " folder"
            )
    if not folder.exists():
        return
    for name in folder.names():
        if not (is_hidden(name) or name.endswith(".parquet") or "=" in name):
            raise PipelineError(
                f"{path} contains {name!r}, which is not part of a table; choose a new folder"
            )


def _upward(path: Path) -> Iterator[Path]:
    yield path
    yield from path.parents


def check_outputs(spark: MaybeSpark, path: str, names: Sequence[str]) -> None:
    """Raise an error if writing tables of these names below a folder would destroy something."""
    for name in names:
        check_output(spark, f"{path.rstrip('/')}/{name}")


def _lies_in(path: str, other: str) -> bool:
    return f"{path}/".startswith(f"{other}/")


def _fits(found: DataType, declared: DataType) -> bool:
    if isinstance(declared, ArrayType):
        return isinstance(found, ArrayType) and _fits(found.elementType, declared.elementType)
    if isinstance(declared, StructType):
        return isinstance(found, StructType) and (
            found.names == declared.names
            and all(_fits(found[name].dataType, declared[name].dataType) for name in found.names)
        )
    return found == declared or found in _WIDENED.get(declared.simpleString(), ())
