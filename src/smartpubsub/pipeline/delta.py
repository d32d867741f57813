"""Tables in the Delta format, without Spark's libraries for it.

Spark's tasks write Parquet files into the folder of the table. Then the driver commits their names
to the table's log, with the package deltalake. A commit has the transaction of its writer: a stage
or a stream that repeats a write finds it there, so the rows are in the table once. Files that no
commit names belong to writes that were interrupted, and no reader sees them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, WriterProperties
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from smartpubsub.pipeline.errors import PipelineError, plain_errors
from smartpubsub.pipeline.folders import File, Folder, MaybeSpark, open_file

COMPACT_BYTES = 64 << 20
"""The size of the files that small ones are joined to; larger ones stay."""


def read(spark: SparkSession, path: str, schema: StructType) -> DataFrame:
    """The newest version of a table; `schema` is that of a table without files."""
    files = files_of(spark, path)
    with plain_errors():
        if not files:
            return spark.createDataFrame([], schema)
        return spark.read.option("basePath", Folder(spark, path).full_path).parquet(*files)


def files_of(spark: MaybeSpark, path: str) -> list[str]:
    """The files of the newest version."""
    with _errors_at(path):
        return DeltaTable(_uri(Folder(spark, path))).file_uris()


def names_of(spark: SparkSession, path: str) -> list[str]:
    """The names of the files of the newest version, without their folders."""
    return [file.rsplit("/", 1)[-1] for file in files_of(spark, path)]


def row_count(spark: MaybeSpark, path: str) -> int:
    """The number of rows of the newest version, from its log."""
    with _errors_at(path):
        actions = DeltaTable(_uri(Folder(spark, path))).get_add_actions(flatten=True)
    return sum(pa.table(actions).column("num_records").to_pylist())


def version(spark: MaybeSpark, path: str) -> int:
    """The number of the newest version."""
    with _errors_at(path):
        return DeltaTable(_uri(Folder(spark, path))).version()


def compact(spark: MaybeSpark, path: str) -> int:
    """Join the small files of a table, and return the number of files that it has then.

    Its rows stay the same. The files of versions that are older than a week are removed.
    """
    writer = WriterProperties(compression="ZSTD")
    with _errors_at(path):
        table = DeltaTable(_uri(Folder(spark, path)))
        table.optimize.compact(target_size=COMPACT_BYTES, writer_properties=writer)
        table.vacuum(dry_run=False)
        return len(table.file_uris())


def last_write(spark: MaybeSpark, path: str, app: str) -> int | None:
    """The number of a writer's last write in a table, if there is one."""
    uri = _uri(Folder(spark, path))
    with _errors_at(path):
        return DeltaTable(uri).transaction_version(app) if DeltaTable.is_deltatable(uri) else None


def commit(
    folder: Folder,
    files: Sequence[File],
    schema: pa.Schema,
    writer: tuple[str, int],
    *,
    parts: Sequence[str] = (),
    replaces: Mapping[str, Sequence[str]] | None = None,
    is_more: bool = False,
) -> None:
    """Make files in the folder the table, a part of it, or more of it.

    `writer` is the writer's name, and the number of its write. `replaces` gives the values of a
    column of which the earlier rows are replaced.
    """
    added = [_added(file, folder) for file in files]
    properties = CommitProperties(app_transactions=[Transaction(*writer)])
    filters = [(name, "in", [*values]) for name, values in (replaces or {}).items()]
    uri = _uri(folder)
    with _errors_at(folder.path):
        if DeltaTable.is_deltatable(uri):
            DeltaTable(uri).create_write_transaction(
                [*added],
                "append" if is_more else "overwrite",
                Schema.from_arrow(schema),
                partition_by=[*parts],
                partition_filters=filters or None,
                commit_properties=properties,
            )
        else:
            create_table_with_add_actions(
                uri,
                Schema.from_arrow(schema),
                added,
                partition_by=[*parts],
                commit_properties=properties,
            )


def _added(file: File, folder: Folder) -> AddAction:
    with open_file(file.path) as opened:
        count = pq.ParquetFile(opened).metadata.num_rows
    name = file.path.removeprefix(folder.full_path).strip("/")
    pairs = (part.split("=", 1) for part in name.split("/")[:-1])
    values = {column: unquote(value) for column, value in pairs}
    stats = json.dumps({"numRecords": count})
    return AddAction(name, file.bytes, values, file.modified_ms, True, stats)


def _uri(folder: Folder) -> str:
    return folder.full_path.removeprefix("file:") if folder.has_plain_files else folder.full_path


@contextmanager
def _errors_at(path: str) -> Iterator[None]:
    try:
        yield
    except (DeltaError, OSError) as error:
        [line, *_] = str(error).splitlines() or [type(error).__name__]
        raise PipelineError(f"{path}: {line}") from None
