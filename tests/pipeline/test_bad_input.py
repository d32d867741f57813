"""What a user can get wrong about tables and Spark is one line that says what to do."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from smartpubsub.cli.main import main
from smartpubsub.cli.pipeline import options
from smartpubsub.pipeline import folders, sessions
from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.pipeline.local_inputs import check_local, plain_paths_are_local
from smartpubsub.pipeline.outputs import Output
from smartpubsub.pipeline.schemas import MATCHES
from smartpubsub.predicates import Predicate
from tests.pipeline.given import numbered, table_in

GOOD = numbered("event_id", [Predicate.parse("a")])
WANTED = numbered("subscription_id", [Predicate.parse("a")])


def complaint(
    folder: Path, capsys: pytest.CaptureFixture[str], *more: str, out: str = "out", code: int = 1
) -> str:
    if not (folder / "s").exists():
        table_in(folder / "s", WANTED)
    arguments = ["--events", "e", "--subscriptions", "s", "--out", out]
    paths = [word if word.startswith("--") else str(folder / word) for word in arguments]
    assert main(["pipeline", "match", *paths, *more]) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert len(output.err.splitlines()) == 1
    return output.err


@pytest.mark.usefixtures("spark")
class TestTables:
    def test_a_path_that_is_not_there(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert "no such file or folder" in complaint(tmp_path, capsys)

    def test_a_folder_with_nothing_in_it(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "e").mkdir()
        (tmp_path / "e" / "_SUCCESS").touch()

        assert "e is empty; give the path of a table of events" in complaint(tmp_path, capsys)

    def test_a_folder_with_something_else(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "e").mkdir()
        (tmp_path / "e" / "events.csv").write_text("1,a\n")

        assert "events.csv is not Parquet" in complaint(tmp_path, capsys)

    def test_a_file_that_only_pretends(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "e").mkdir()
        (tmp_path / "e" / "0.parquet").write_text("1,a\n")

        assert "0.parquet is not a Parquet file" in complaint(tmp_path, capsys)

    @pytest.mark.parametrize(
        ("columns", "said"),
        [
            ({"id": [1]}, "it has no column 'event_id', only id"),
            ({"event_id": ["x"]}, "its column 'event_id' is string, not bigint"),
            (
                {"event_id": [1], "topics": ["x"]},
                "its column 'topics' is string, not array<string>",
            ),
        ],
    )
    def test_a_table_with_another_schema(
        self,
        columns: dict[str, list[object]],
        said: str,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        table_in(tmp_path / "e", pa.table(columns))

        assert said in complaint(tmp_path, capsys)

    @pytest.mark.parametrize("out", ["e", "e/below", "."])
    def test_an_output_that_would_overwrite_an_input(
        self, out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        table_in(tmp_path / "e", GOOD)

        assert "would overwrite" in complaint(tmp_path, capsys, out=out)

    def test_an_output_that_would_destroy_something_else(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        table_in(tmp_path / "e", GOOD)
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "thesis.tex").touch()

        assert "contains 'thesis.tex', which is not part of a table" in complaint(tmp_path, capsys)
        assert (tmp_path / "out" / "thesis.tex").exists()

    @pytest.mark.parametrize("out", ["thesis.tex", "thesis.tex/below"])
    def test_an_output_that_is_a_file(
        self, out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        table_in(tmp_path / "e", GOOD)
        (tmp_path / "thesis.tex").touch()

        assert "thesis.tex is a file; choose a folder" in complaint(tmp_path, capsys, out=out)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, "out: Permission denied; change its permissions, or choose another place"),
        (errno.ENOSPC, "out: No space left on device; make room there, or choose another place"),
    ],
)
def test_an_output_that_cannot_be_written(
    number: int,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, "as pyarrow says it: ... Detail: ...")

    table_in(tmp_path / "e", GOOD)
    table_in(tmp_path / "s", WANTED)
    monkeypatch.setattr(pq, "write_table", fail)

    assert said in complaint(tmp_path, capsys)


def test_an_output_in_a_folder_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table_in(tmp_path / "e", GOOD)
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)

    assert f"out: {tmp_path} cannot be written; change its permissions" in complaint(
        tmp_path, capsys
    )


def test_a_full_disk_is_named_with_its_place(spark: SparkSession, tmp_path: Path) -> None:
    def fail(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    rows = spark.range(1).mapInArrow(fail, MATCHES.schema)

    with pytest.raises(PipelineError, match=r"out: .*No space left on device, .*; make room"):
        Output().write(rows, str(tmp_path / "out"), MATCHES)


def test_an_input_that_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(errno.EACCES, "as pyarrow says it: ... Detail: ...")

    table_in(tmp_path / "e", GOOD)
    monkeypatch.setattr(folders, "file_system_of", fail)

    assert "Permission denied; change its permissions" in complaint(tmp_path, capsys)


@pytest.mark.parametrize(
    "more", [["--set", "nonsense"], ["--memory-mb", "10"], ["--nonsense"], ["surplus"]]
)
def test_wrong_usage(more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--help" in complaint(tmp_path, capsys, *more, code=2)


def test_a_master_that_cannot_be_used_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        one = f"spark://127.0.0.1:{port}"
        other = sessions.SessionOptions(master=f"spark://127.0.0.1:1,127.0.0.1:{port}")
        sessions.check_reachable(str(other.master))

    with pytest.raises(PipelineError, match="'nonsense' is no Spark master; name one such as"):
        sessions.SessionOptions(master="nonsense")
    with pytest.raises(PipelineError, match=f"{one}: no Spark master answers .* or name another"):
        sessions.start_session(sessions.SessionOptions(master=one))


def test_a_master_with_an_impossible_name_is_an_error_in_one_line() -> None:
    with pytest.raises(PipelineError, match=r"spark://a\.\.b:7077: no Spark master answers"):
        sessions.check_reachable("spark://a..b:7077")


def test_masters_have_names_and_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def fail(place: tuple[str, int], _: float) -> None:
        asked.append(place)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", fail)
    with pytest.raises(PipelineError):
        sessions.check_reachable("spark://here:7077,[2001:4860::8888]:7078,10.0.0.1:7079")
    assert asked == [("here", 7077), ("2001:4860::8888", 7078), ("10.0.0.1", 7079)]


def test_a_setting_with_which_java_ends_at_once_has_a_remedy(tmp_path: Path) -> None:
    table_in(tmp_path / "e", GOOD)
    table_in(tmp_path / "s", WANTED)
    words = "match --events e --subscriptions s --out m --set spark.executor.memory=lots"
    command = [sys.executable, "-m", "smartpubsub", "pipeline", *words.split()]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "Executor memory must be a positive number" in done.stderr
    assert "correct the settings (--set)" in done.stderr.splitlines()[-1]


def test_without_java_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table_in(tmp_path / "e", GOOD)
    monkeypatch.setattr(sessions, "find_java", lambda: None)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)

    more = ("--set", "spark.smartpubsub.littleBytes=0")
    assert "Java 17 or newer and found none; install" in complaint(tmp_path, capsys, *more)


@pytest.mark.parametrize("words", ["measure t --format delta", "archive --follow --topic t"])
def test_delta_needs_a_package(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "find_spec", lambda _: None)

    assert main(["pipeline", *words.split(), "--out", "o"]) == 1

    assert "pip install 'smartpubsub[delta]'" in capsys.readouterr().err


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(sessions, "spark_session", never)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("workload --published reddit-2007 --to {0}/no/x", "{0}/no/x: there is no folder {0}/no;"),
        ("workload --published reddit-2007 --to {0}", "{0} is a folder; give the name of a file"),
        ("archive --from {0} --to {0}/no/x", "{0}/no/x: there is no folder {0}/no;"),
        ("archive {0}/text --out {0}/out", "{0}/text: no CAR file, or a damaged one; give CAR"),
    ],
)
def test_files_are_looked_at_before_spark_starts(
    command: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("plain text")

    assert main(["pipeline", *command.format(tmp_path).split()]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert said.format(tmp_path) in line


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("there", ["missing", "empty", "hidden"])
@pytest.mark.parametrize(
    "command",
    [
        ["ingest", "{given}"],
        ["classify", "--events", "{given}"],
        ["match", "--events", "{given}", "--subscriptions", "{given}"],
        ["measure", "{given}"],
        ["report", "{given}"],
        ["workload", "--events", "{given}", "--nodes", "3"],
        ["workload", "--from", "{given}"],
        ["archive", "{given}"],
    ],
    ids=" ".join,
)
def test_inputs_are_looked_at_before_spark_starts(
    command: list[str],
    there: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = tmp_path / there
    if there == "hidden":
        (given / "_temporary").mkdir(parents=True)
        (given / "_temporary" / "0.parquet").write_text("x")
    elif there == "empty":
        given.touch()

    arguments = [word.format(given=given) for word in command]
    assert main(["pipeline", *arguments, "--out", str(tmp_path / "out")]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert str(given) in line
    assert ("no such file or folder" if there == "missing" else "is empty") in line


def test_paths_that_may_be_elsewhere_are_left_to_spark() -> None:
    check_local("hdfs://host/nothing", "a table")
    assert plain_paths_are_local("local[2]", {}, {})
    assert not plain_paths_are_local("spark://host:7077", {}, {})
    assert not plain_paths_are_local(None, {"spark.hadoop.fs.defaultFS": "hdfs://host"}, {})
    assert not plain_paths_are_local(None, {}, {"HADOOP_CONF_DIR": "/etc/hadoop"})
