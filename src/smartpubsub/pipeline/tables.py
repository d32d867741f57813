"""Tables in folders of Parquet: read with a check of their columns, and written whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    FloatType,
    IntegerType,
    ShortType,
    StructType,
)

from smartpubsub.pipeline.errors import PipelineError, told_plainly
from smartpubsub.pipeline.folders import Folder, open_file, require
from smartpubsub.pipeline.local_inputs import empty_text, is_hidden
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
    require_table(spark, path, table)
    with told_plainly():
        frame = spark.read.parquet(path)
    return conforming(frame, table, columns or table.names, place=path)


def require_table(spark: SparkSession, path: str, table: Table) -> None:
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
    selected = []
    for column in map(table.column, columns):
        if column.name not in frame.columns:
            if not column.is_nullable:
                raise PipelineError(
                    f"{place} is not a table of {table.name}: it has no column {column.name!r},"
                    f" only {', '.join(frame.columns) or 'none at all'}"
                )
            selected.append(sf.lit(None).cast(column.type).alias(column.name))
            continue
        found = frame.schema[column.name].dataType
        if not _fits(found, column.type):
            raise PipelineError(
                f"{place} is not a table of {table.name}: its column {column.name!r} is"
                f" {found.simpleString()}, not {column.type.simpleString()}"
            )
        selected.append(sf.col(column.name).cast(column.type))
    return frame.select(*selected)


def write_table(frame: DataFrame, path: str, table: Table, *, is_more: bool = False) -> None:
    """Write a table, replacing an existing one; or append to it."""
    with told_plainly():
        frame.select(*table.names).write.mode("append" if is_more else "overwrite").parquet(path)


def write_rows(spark: SparkSession, rows: pa.Table, path: str, table: Table) -> None:
    """Write the rows of a small table, replacing an existing one; on this machine without Spark."""
    folder = Folder(spark, path)
    if not folder.has_plain_files:
        with told_plainly():
            frame = spark.createDataFrame(rows, schema=table.schema)
        write_table(frame, path, table)
        return
    folder.delete()
    place = Path(folder.full_path.removeprefix("file:"))
    place.mkdir(parents=True)
    new, file = place / ".new", place / "part-00000.parquet"
    pq.write_table(rows.select(table.names), new, compression="zstd")
    new.replace(file)


def row_count(spark: SparkSession, path: str, table: Table) -> int:
    """The number of rows of a written table; on this machine without a Spark job."""
    folder = Folder(spark, path)
    if not folder.has_plain_files:
        with told_plainly():
            return spark.read.schema(table.schema).parquet(path).count()
    return sum(map(_row_count, folder.data_files()))


def check_output(spark: SparkSession, path: str, inputs: Sequence[str] = ()) -> None:
    """Raise an error if writing a table here would destroy something else."""
    folder = Folder(spark, path)
    for given in inputs:
        other = Folder(spark, given).full_path
        if _lies_in(folder.full_path, other) or _lies_in(other, folder.full_path):
            raise PipelineError(f"{path} would overwrite {given}, which is read; choose another")
    if not folder.exists():
        return
    for name in folder.names():
        if not (is_hidden(name) or name.endswith(".parquet") or "=" in name):
            raise PipelineError(
                f"{path} contains {name!r}, which is not part of a table; choose a new folder"
            )


def check_outputs(spark: SparkSession, path: str, names: Sequence[str]) -> None:
    """Raise an error if writing tables of these names below a folder would destroy something."""
    for name in names:
        check_output(spark, f"{path.rstrip('/')}/{name}")


def _lies_in(path: str, other: str) -> bool:
    return f"{path}/".startswith(f"{other}/")


def _row_count(path: str) -> int:
    with open_file(path) as file:
        return int(pq.ParquetFile(file).metadata.num_rows)


def _fits(found: DataType, declared: DataType) -> bool:
    if isinstance(declared, ArrayType):
        return isinstance(found, ArrayType) and _fits(found.elementType, declared.elementType)
    if isinstance(declared, StructType):
        return isinstance(found, StructType) and (
            found.names == declared.names
            and all(_fits(found[name].dataType, declared[name].dataType) for name in found.names)
        )
    return found == declared or found in _WIDENED.get(declared.simpleString(), ())
