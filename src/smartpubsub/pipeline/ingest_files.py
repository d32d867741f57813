"""Records and bad lines as Parquet files of this machine, written without Spark's writer.

Spark would take every list of a record apart, which takes longer than parsing the line. Tasks write
files beside the table, and the driver moves them into it when all are complete.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from smartpubsub.pipeline.folders import file_errors
from smartpubsub.pipeline.schemas import BAD_LINES, RECORDS

Batches = Iterator[pa.RecordBatch]
Row = Mapping[str, Any]

ROWS_PER_GROUP = 1 << 16
"""Rows of a file that are compressed together."""

TABLES = (RECORDS, BAD_LINES)
WRITTEN = "source string, lines bigint, reasons string, records string, bad_lines string"
"""The report about the files of a part of a source: reasons with their counts as JSON, and the
name of the file for each table, if there is one."""


@contextmanager
def new_files(table: Path) -> Iterator[Path]:
    """A folder for new files on the disk of a table, which is removed at the end."""
    folder = table / f"_new-{uuid.uuid4()}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def writing(
    judged: Callable[[Batches], Batches], source: str, folder: Path
) -> Callable[[Batches], Batches]:
    """Like `judged`, but write the rows to new files, and return one row that describes them."""

    def write(batches: Batches) -> Batches:
        yield pa.RecordBatch.from_pylist([write_part(judged(batches), source, folder)])

    return write


def write_part(judged: Iterable[pa.RecordBatch], source: str, folder: Path) -> dict[str, Any]:
    """Write the judged rows of a part of a source; return a description of its files."""
    files = {table.name: _File(folder, table.names) for table in TABLES}
    lines, reasons = 0, Counter[str]()
    try:
        for batch in judged:
            lines += len(batch)
            bad = batch.filter(pc.is_valid(batch.column("reason")))
            reasons.update(bad.column("reason").to_pylist())
            files[BAD_LINES.name].add(bad)
            good = batch.filter(pc.is_null(batch.column("reason"))) if len(bad) else batch
            files[RECORDS.name].add(good)
    finally:
        names = {name: file.close() for name, file in files.items()}
    return {"source": source, "lines": lines, "reasons": json.dumps(reasons), **names}


class _File:
    """A file that is created with its first rows."""

    def __init__(self, folder: Path, columns: Sequence[str]) -> None:
        self._path = folder / f"part-{uuid.uuid4()}.parquet"
        self._place = str(folder.parent)
        self._columns = [name for name in columns if name != "source"]
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []

    def add(self, rows: pa.RecordBatch) -> None:
        if len(rows):
            self._waiting.append(rows.select(self._columns))
        if sum(map(len, self._waiting)) >= ROWS_PER_GROUP:
            self._flush()

    def close(self) -> str | None:
        """Close the file; return its name."""
        if self._waiting:
            self._flush()
        if self._writer is None:
            return None
        with file_errors(self._place):
            self._writer.close()
        return self._path.name

    def _flush(self) -> None:
        rows, self._waiting = pa.Table.from_batches(self._waiting), []
        with file_errors(self._place):
            if self._writer is None:
                self._writer = pq.ParquetWriter(self._path, rows.schema, compression="zstd")
            self._writer.write_table(rows)


def replace_files(written: Iterable[Row], folder: Path, places: Mapping[str, Path]) -> None:
    """Make files the only ones of a source: those for each table move to its place."""
    rows = [*written]
    for table, place in places.items():
        before = [*place.iterdir()] if place.is_dir() else []
        names = [row[table] for row in rows if row[table] is not None]
        if names:
            place.mkdir(parents=True, exist_ok=True)
        for name in names:
            (folder / name).replace(place / name)
        for path in before:
            path.unlink()
        if before and not names:
            place.rmdir()
