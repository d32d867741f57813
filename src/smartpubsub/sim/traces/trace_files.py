"""Traces as files, written while a run lasts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from smartpubsub.errors import SmartPubSubError
from smartpubsub.sim.traces.trace import Row

TRACE_SCHEMA = pa.schema(
    [
        pa.field("at_us", pa.int64(), nullable=False),
        pa.field("what", pa.string(), nullable=False),
        pa.field("node", pa.int64(), nullable=False),
        pa.field("peer", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("event", pa.string()),
        pa.field("hops", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("subscription", pa.int64()),
    ]
)
"""The columns of a trace; `smartpubsub.sim.traces.trace.Row` documents them.

A column is null if it does not apply to the row: there is no other node, no event, no size.
"""

ROWS_PER_GROUP = 65_536
"""How many rows are kept in memory before they are written together."""

_CARRIES_EVENT = frozenset({"publish", "deliver"})


def record_of(row: Row) -> dict[str, object]:
    """A row by the names of its columns, without those that do not apply.

    >>> record_of(Row(5, "timer", 3, kind="flood"))
    {'at_us': 5, 'what': 'timer', 'node': 3, 'kind': 'flood'}
    """
    record: dict[str, object] = {"at_us": row.at_us, "what": row.what, "node": row.node}
    # A payload may be empty and an event may come from the node itself: these zeros are values.
    has_event = row.what in _CARRIES_EVENT and bool(row.event)
    if row.peer >= 0:
        record["peer"] = row.peer
    if row.kind:
        record["kind"] = row.kind
    if row.size or has_event:
        record["size"] = row.size
    if row.event:
        record["event"] = row.event
    if row.hops or (has_event and row.what == "deliver"):
        record["hops"] = row.hops
    if row.text:
        record["text"] = row.text
    if row.subscription >= 0:
        record["subscription"] = row.subscription
    return record


class _File(Protocol):
    def write(self, rows: Sequence[Row]) -> None: ...

    def close(self) -> None: ...


class _ParquetFile:
    def __init__(self, folder: Path) -> None:
        self._writer = pq.ParquetWriter(folder / "part-00000.parquet", TRACE_SCHEMA)

    def write(self, rows: Sequence[Row]) -> None:
        self._writer.write_table(pa.Table.from_pylist(list(map(record_of, rows)), TRACE_SCHEMA))

    def close(self) -> None:
        self._writer.close()


class _JsonLinesFile:
    def __init__(self, folder: Path) -> None:
        self._file: TextIO = (folder / "trace.jsonl").open("w", encoding="utf-8")

    def write(self, rows: Sequence[Row]) -> None:
        self._file.writelines(json.dumps(record_of(row), ensure_ascii=False) + "\n" for row in rows)

    def close(self) -> None:
        self._file.close()


TRACE_FORMATS: dict[str, Callable[[Path], _File]] = {
    "parquet": _ParquetFile,
    "jsonl": _JsonLinesFile,
}
"""The formats by their names on the command line."""


class TraceFolder:
    """A sink that writes the rows of a trace to a folder.

    It is a context manager, so that the files are readable however the run ends.
    """

    def __init__(self, folder: Path, form: str = "parquet") -> None:
        self._folder = folder
        self._rows: list[Row] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise SmartPubSubError(
                    f"{folder}: there are files already; choose a folder that is empty or new"
                )
            self._file = TRACE_FORMATS[form](folder)
        except OSError as error:
            raise self._problem(error) from None

    def __call__(self, rows: Sequence[Row]) -> None:
        """Add rows, many at a time."""
        self._rows.extend(rows)
        if len(self._rows) >= ROWS_PER_GROUP:
            self._write()

    def __enter__(self) -> TraceFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write the remaining rows, and close the file."""
        with ExitStack() as stack:
            stack.callback(self._close_file)
            if self._rows:
                self._write()

    def _write(self) -> None:
        # Cleared first: an interrupt may lose rows here, but never write them twice.
        rows, self._rows = self._rows, []
        try:
            self._file.write(rows)
        except OSError as error:
            raise self._problem(error) from None

    def _close_file(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            raise self._problem(error) from None

    def _problem(self, error: OSError) -> SmartPubSubError:
        reason = error.strerror or str(error)
        return SmartPubSubError(
            f"{self._folder}: the trace cannot be written: {reason}; choose a new folder in a place"
            " where you can write"
        )
