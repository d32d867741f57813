"""The output of a stage: tables as Parquet, or as Delta with a transaction for each write."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from smartpubsub.pipeline.errors import PipelineError, plain_errors
from smartpubsub.pipeline.folders import File, Folder, MaybeSpark, file_errors, open_file
from smartpubsub.pipeline.schemas import Table

TableFormat: TypeAlias = Literal["parquet", "delta"]
_LOG = "_delta_log"
_PIECES_MAX = 1 << 20
# What Spark writes otherwise in the name of a folder.
_ESCAPED = re.compile(r"""["#%'*/:=?\\{\[\]^\x01-\x1f\x7f]""")


def is_delta(spark: MaybeSpark, path: str) -> bool:
    """Whether a table is in the Delta format."""
    return Folder(spark, path).below(_LOG).exists()


def writer_of(stage: str) -> str:
    """The name of a stage in the transactions of its tables."""
    return f"smartpubsub/{stage}"


def last_write(spark: MaybeSpark, path: str, stage: str) -> int | None:
    """The last write of a stage in a table, if the table is in the Delta format."""
    if not is_delta(spark, path):
        return None
    from smartpubsub.pipeline import delta

    return delta.last_write(spark, path, writer_of(stage))


@dataclass(frozen=True)
class Output:
    """The format of the tables that a stage writes."""

    format: TableFormat = "parquet"
    stage: str = ""
    digest: int = 0
    """A hash of the inputs and options, for Delta: a repeated stage has the same."""

    @classmethod
    def of(
        cls,
        spark: MaybeSpark,
        table_format: TableFormat,
        stage: str,
        inputs: Sequence[str],
        **options: object,
    ) -> Output:
        """The output of a stage with some inputs."""
        if table_format == "parquet":
            return cls()
        files = [file for path in inputs for file in Folder(spark, path).data()]
        content = json.dumps(
            [sorted(files), sorted((name, repr(v)) for name, v in options.items())]
        )
        digest = hashlib.sha256(content.encode()).digest()
        return cls(table_format, stage, int.from_bytes(digest[:5], "big"))

    def write(
        self,
        frame: DataFrame,
        path: str,
        table: Table,
        *,
        piece: int = 0,
        parts: Sequence[str] = (),
        replaces: Mapping[str, Sequence[str]] | None = None,
        is_more: bool = False,
    ) -> bool:
        """Write a table: replace it or some of its parts, or add to it.

        Return False, without evaluating the frame, if the same write is in the table already.

        `parts` are the columns by which it is divided. `replaces` gives the values of such a column
        of which earlier rows are replaced. A table that is written in pieces numbers them.
        """
        spark = frame.sparkSession
        folder, chosen = Folder(spark, path), frame.select(*table.names)
        if is_more or replaces:
            self.check_format(spark, path)
        if self.format == "parquet":
            mode = "append" if is_more else "overwrite"
            with _errors_of_writing(path):
                chosen.write.mode(mode).partitionBy(*parts).parquet(folder.full_path)
            return True
        if self._is_written(spark, path, piece):
            return False
        from smartpubsub.pipeline import delta

        before = {file.path for file in folder.data()} if folder.exists() else set()
        with _errors_of_writing(path):
            chosen.write.mode("append").partitionBy(*parts).parquet(folder.full_path)
        delta.commit(
            folder,
            [file for file in folder.data() if file.path not in before],
            to_arrow_schema(table.schema, timezone="UTC"),
            self._writer(piece),
            parts=parts,
            replaces=replaces,
            is_more=is_more,
        )
        return True

    def write_rows(
        self,
        spark: MaybeSpark,
        rows: pa.Table,
        path: str,
        table: Table,
        *,
        parts: Sequence[str] = (),
        replaces: Mapping[str, Sequence[str]] | None = None,
        is_more: bool = False,
    ) -> None:
        """Write the rows of a small table as `write` does; here without a Spark job."""
        folder = Folder(spark, path)
        if spark is not None and not folder.has_plain_files:
            with plain_errors():
                frame = spark.createDataFrame(rows, schema=table.schema)
            self.write(frame, path, table, parts=parts, replaces=replaces, is_more=is_more)
            return
        if is_more or replaces:
            self.check_format(spark, path)
        if self.format == "delta" and self._is_written(spark, path, 0):
            return
        if self.format == "parquet":
            for old in _replaced(folder, replaces, is_more=is_more):
                old.delete()
        name = f"part-00000-{uuid.uuid4()}.parquet"
        files: list[File] = []
        with file_errors(path):
            folder.local_path.mkdir(parents=True, exist_ok=True)
            for part, some in _divided(rows.select(table.names), parts):
                place = folder.local_path / part
                place.mkdir(parents=True, exist_ok=True)
                new = place / f".{name}"
                pq.write_table(some, new, compression="zstd")
                new.replace(place / name)
                written = (place / name).stat()
                full = "/".join(filter(None, (folder.full_path, part, name)))
                files.append(File(full, written.st_size, written.st_mtime_ns // 1_000_000))
        if self.format == "delta":
            from smartpubsub.pipeline import delta

            delta.commit(
                folder,
                files,
                to_arrow_schema(table.schema, timezone="UTC"),
                self._writer(0),
                parts=parts,
                replaces=replaces,
                is_more=is_more,
            )

    def adopt(self, spark: SparkSession, path: str, table: Table) -> None:
        """Add files that tasks have written themselves to the table, if the format needs that."""
        if self.format == "delta" and not self._is_written(spark, path, 0):
            from smartpubsub.pipeline import delta

            folder = Folder(spark, path)
            known = {*delta.names_of(spark, path)} if is_delta(spark, path) else set()
            new = [file for file in folder.data() if file.path.rsplit("/", 1)[-1] not in known]
            schema = to_arrow_schema(table.schema, timezone="UTC")
            delta.commit(folder, new, schema, self._writer(0), is_more=True)

    def read(self, spark: SparkSession, path: str, schema: StructType) -> DataFrame:
        """A table that this stage has written."""
        return read_written(spark, path, schema, is_known_delta=self.format == "delta")

    def versions(self, spark: MaybeSpark, paths: Mapping[str, str]) -> dict[str, object]:
        """The versions of tables in Delta, by name, for the summary."""
        return {} if self.format == "parquet" else {"versions": versions_of(spark, paths)}

    def check_format(self, spark: MaybeSpark, path: str) -> None:
        """Raise an error if earlier rows, which stay, are in the other format."""
        if is_delta(spark, path):
            if self.format == "parquet":
                raise PipelineError(f"{path} is a table in the Delta format; add --format delta")
        elif self.format == "delta" and Folder(spark, path).has_files():
            raise PipelineError(
                f"{path} is a table in Parquet; leave out --format delta, or choose a new folder"
            )

    def _is_written(self, spark: MaybeSpark, path: str, piece: int) -> bool:
        last = last_write(spark, path, self.stage)
        if last is None:
            return False
        digest, number = divmod(last, _PIECES_MAX)
        return digest == self.digest and number >= piece

    def _writer(self, piece: int) -> tuple[str, int]:
        return writer_of(self.stage), self.digest * _PIECES_MAX + piece


PARQUET = Output()


@contextmanager
def _errors_of_writing(path: str) -> Iterator[None]:
    """Name the place where a full disk ends a job; Spark names none."""
    try:
        with plain_errors():
            yield
    except PipelineError as error:
        if not str(error).endswith(os.strerror(errno.ENOSPC)):
            raise
        raise PipelineError(
            f"{path}: {error}, there or in Spark's folder for temporary files (spark.local.dir);"
            " make room, or choose another place"
        ) from None


def part_name(column: str, value: str) -> str:
    """The folder of the rows of a table that have a value, as Spark names it.

    >>> part_name("source", "a b:c=é")
    'source=a b%3Ac%3Dé'
    """
    return f"{column}=" + _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value)


def _replaced(
    folder: Folder, replaces: Mapping[str, Sequence[str]] | None, *, is_more: bool
) -> list[Folder]:
    """The folders of the rows that a write replaces."""
    if replaces is None:
        return [] if is_more else [folder]
    return [folder.below(part_name(name, v)) for name, values in replaces.items() for v in values]


def _divided(rows: pa.Table, parts: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each part, without the columns that its folder names."""
    if not parts:
        yield "", rows
        return
    for key in rows.group_by([*parts]).aggregate([]).to_pylist():
        some = rows
        for name, value in key.items():
            some = some.filter(pc.field(name) == value)
        yield "/".join(part_name(*pair) for pair in key.items()), some.drop_columns([*parts])


def versions_of(spark: MaybeSpark, paths: Mapping[str, str]) -> dict[str, int]:
    """The versions of those tables that are in the Delta format, by name."""
    there = {name: path for name, path in paths.items() if is_delta(spark, path)}
    if not there:
        return {}
    from smartpubsub.pipeline import delta

    return {name: delta.version(spark, path) for name, path in there.items()}


def read_written(
    spark: SparkSession, path: str, schema: StructType, *, is_known_delta: bool | None = None
) -> DataFrame:
    """A table with the columns of a schema, in either format."""
    if is_delta(spark, path) if is_known_delta is None else is_known_delta:
        from smartpubsub.pipeline import delta

        return delta.read(spark, path, schema)
    with plain_errors():
        return spark.read.schema(schema).parquet(Folder(spark, path).full_path)


def row_count(spark: MaybeSpark, path: str, table: Table) -> int:
    """The number of rows of a written table; without a Spark job if its files are plain."""
    if is_delta(spark, path):
        from smartpubsub.pipeline import delta

        return delta.row_count(spark, path)
    folder = Folder(spark, path)
    if spark is not None and not folder.has_plain_files:
        with plain_errors():
            return spark.read.schema(table.schema).parquet(folder.full_path).count()
    return sum(map(_rows_in, folder.data_files()))


def _rows_in(path: str) -> int:
    with open_file(path) as file:
        return int(pq.ParquetFile(file).metadata.num_rows)
