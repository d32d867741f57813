"""Traces in files: what is in them, and what happens where none can be."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from smartpubsub.errors import SmartPubSubError
from smartpubsub.sim.traces import trace_files
from smartpubsub.sim.traces.trace import Row, Trace
from smartpubsub.sim.traces.trace_files import TRACE_SCHEMA, TraceFolder, record_of

ROWS = [
    Row(1, "send", 0, 1, "Rpc", 230),
    Row(2, "receive", 1, 0, "Rpc"),
    Row(2, "timer", 1, kind="flood"),
    Row(3, "publish", 0, event="aa-0-1", text="surf/price=3"),
    Row(4, "deliver", 0, size=80, event="aa-0-1", text="1,2"),
    Row(5, "deliver", 2, size=80, event="aa-0-1", hops=3, text="7"),
    Row(6, "deliver", 2, kind="Joined"),
    Row(7, "fault", 0, kind="crash"),
]


def write(folder: Path, form: str, rows: list[Row]) -> None:
    with TraceFolder(folder, form) as sink:
        sink(rows)


def records_in(folder: Path) -> list[dict[str, object]]:
    """What a folder holds, without nulls."""
    if (folder / "trace.jsonl").exists():
        text = (folder / "trace.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]
    records = pq.read_table(folder).to_pylist()
    return [{name: value for name, value in r.items() if value is not None} for r in records]


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_what_was_written_is_read_again(form: str, tmp_path: Path) -> None:
    write(tmp_path / "deep" / "trace", form, ROWS)

    assert records_in(tmp_path / "deep" / "trace") == [record_of(row) for row in ROWS]


def test_parquet_has_the_declared_schema(tmp_path: Path) -> None:
    write(tmp_path, "parquet", [])

    assert pq.read_schema(tmp_path / "part-00000.parquet").equals(TRACE_SCHEMA)
    assert tuple(TRACE_SCHEMA.names) == Row._fields


def test_nothing_to_say_is_null_and_a_zero_that_counts_is_not() -> None:
    assert record_of(Row(3, "publish", 0, event="a"))["size"] == 0
    assert record_of(Row(4, "deliver", 0, size=8, event="a"))["hops"] == 0
    for nothing in ("peer", "size", "event", "hops", "text"):
        assert nothing not in record_of(Row(2, "timer", 1, kind="flood"))


def test_rows_are_written_in_groups_while_more_are_coming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_files, "ROWS_PER_GROUP", 10)
    with TraceFolder(tmp_path) as sink:
        for _ in range(5):
            sink(ROWS)

    file = pq.ParquetFile(tmp_path / "part-00000.parquet")
    assert file.metadata.num_rows == 5 * len(ROWS)
    assert file.metadata.num_row_groups == 3


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_an_interrupted_run_leaves_a_file_that_can_be_read(form: str, tmp_path: Path) -> None:
    def interrupted_run() -> None:
        with TraceFolder(tmp_path, form) as sink:
            trace = Trace(sink)
            trace.add_row(ROWS[0])
            trace.flush()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_run()

    assert records_in(tmp_path) == [record_of(ROWS[0])]


def test_a_folder_with_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine", encoding="utf-8")

    with pytest.raises(SmartPubSubError, match="choose a folder that is empty or new"):
        TraceFolder(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(SmartPubSubError, match=r"cannot be written: .*; choose a new folder"):
        TraceFolder(tmp_path / "file" / "trace")


def test_a_full_disk_is_told_in_words(tmp_path: Path) -> None:
    sink = TraceFolder(tmp_path, "jsonl")
    sink._file.close()
    sink._file._file = Path("/dev/full").open("w")  # type: ignore[attr-defined]  # noqa: SIM115
    sink(ROWS)

    with pytest.raises(SmartPubSubError, match="No space left on device"):
        sink.close()
