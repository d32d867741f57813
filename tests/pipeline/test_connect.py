"""Commands run as clients of Spark Connect, whose server knows no relative path of theirs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from smartpubsub.cli.main import main
from smartpubsub.pipeline import folders, sessions, stages
from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.pipeline.folders import Folder
from smartpubsub.pipeline.sessions import SessionOptions, start_session
from tests.pipeline.given import generated, matches_by_definition, numbered, table_in
from tests.pipeline.test_archive import news
from tests.pipeline.waiting import PATIENCE_S, until

Captured = pytest.CaptureFixture[str]

PLAN = """
[[experiment]]
protocol = ["floodsub", "scoutsubs"]
nodes = 6
"""
LONG_PLAN = """
[[experiment]]
protocol = "floodsub"
nodes = 100
seed = { from = 1, to = 10000 }
"""
COMMENT = {"id": "a", "author": "ann", "subreddit": "surf"}
COMMANDS = """
ingest dump --out records
workload --events records --nodes 3 --out made
match --events e --subscriptions s --out m --format delta
campaign plan.toml --out c
report c --out c/report
archive *.car --out history
archive --from history --to again.car
"""
"""Stages that do more than to transform DataFrames; measure and classify do only that."""
PROGRAM = """
import sys
from smartpubsub.cli.main import main
from smartpubsub.pipeline import session

url, *commands = sys.argv[1:]
little = "spark.smartpubsub.littleBytes"
with session(remote=url) as spark:
    for command in commands:
        # This process would do so little itself, except for archives, which need Spark anyway.
        spark.conf.set(little, "1000000" if command.startswith("archive") else "0")
        assert main(["pipeline", *command.split()]) == 0, command
"""


@pytest.fixture(scope="module")
def server(spark: SparkSession) -> Iterator[str]:
    """The URL of a server in the Java of the tests' session."""
    jvm, context = spark.sparkContext._jvm, spark.sparkContext._jsc.sc()
    context.conf().set("spark.connect.grpc.binding.address", "127.0.0.1")
    context.conf().set("spark.connect.grpc.binding.port", "0")
    name = "org.apache.spark.sql.connect.service.SparkConnectService$"
    service = getattr(getattr(jvm, name), "MODULE$")
    service.start(context)
    yield f"sc://127.0.0.1:{service.localPort()}"
    service.stop(getattr(service, "stop$default$1")(), getattr(service, "stop$default$2")())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with inputs, in which commands run."""
    events, wanted = generated(40, 30, seed=5)
    table_in(tmp_path / "e", numbered("event_id", events), files=2)
    table_in(tmp_path / "s", numbered("subscription_id", wanted))
    lines = [*(json.dumps({**COMMENT, "id": str(number)}) for number in range(9)), "nonsense"]
    (tmp_path / "dump").write_text("\n".join(lines))
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "news.car").write_bytes(news()[0])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows_of(folder: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = pq.read_table(folder).to_pylist()
    return sorted(rows, key=repr)


def test_stages_do_the_same_through_spark_connect(server: str, here: Path) -> None:
    commands = COMMANDS.strip().splitlines()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, server, *commands],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    # What other tests hold to be right, without Spark.
    events, wanted = generated(40, 30, seed=5)
    pairs = DeltaTable(str(here / "m")).to_pyarrow_table().to_pylist()
    found = sorted((pair["event_id"], pair["subscription_id"]) for pair in pairs)
    assert found == matches_by_definition(events, wanted)
    salt = (here / "records" / "_salt").read_text()
    stages.ingest(None, ["dump"], "same", salt=salt)
    assert rows_of(here / "records") == rows_of(here / "same")
    assert rows_of(here / "records" / "_bad") == rows_of(here / "same" / "_bad")
    assert pq.read_table(here / "c" / "results").num_rows == 2
    assert len(rows_of(here / "made" / "events")) == 9
    assert (here / "again.car").read_bytes() == (here / "news.car").read_bytes()
    assert (here / "c" / "report" / "report.html").exists()


def test_ctrl_c_ends_a_command_and_not_the_server(server: str, here: Path) -> None:
    (here / "long.toml").write_text(LONG_PLAN)
    program = Path(sys.executable).with_name("smartpubsub")
    command = [str(program), "pipeline", "campaign", "long.toml", "--out", "long"]
    with subprocess.Popen(
        [*command, "--remote", server], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        until(lambda: any(here.glob("long/results/*")), process)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, output) == (130, b"")
    [line] = [line for line in errors.decode().splitlines() if not line.startswith("campaign: ")]
    assert line.startswith("smartpubsub: campaign was interrupted")


@pytest.mark.usefixtures("here")
def test_a_server_that_does_not_answer_is_named_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    words = f"match --events e --subscriptions s --out m --remote sc://127.0.0.1:{port}"
    command = [sys.executable, "-m", "smartpubsub", "pipeline", *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert f"no server of Spark Connect answers at 127.0.0.1:{port}" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("shell --remote sc://host --master local", "--remote goes without --master"),
        ("report c --out o --remote sc://host --memory-mb 2048", "--remote goes without --master"),
        ("archive --follow --topic t --out o --remote sc://host", "use --master instead"),
    ],
)
def test_what_does_not_go_with_a_server(words: str, said: str, capsys: Captured) -> None:
    assert main(["pipeline", *words.split()]) == 2

    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (SessionOptions(remote="http://host"), "is not the URL of a server such as sc://"),
        (
            SessionOptions(remote="sc://host", settings=(("spark.executor.memory", "1g"),)),
            "spark.executor.memory is chosen where the server",
        ),
    ],
)
def test_a_server_is_asked_for_what_it_can_do(options: SessionOptions, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        start_session(options)


def test_spark_connect_needs_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "find_spec", lambda _: None)

    with pytest.raises(PipelineError, match=r"pip install 'smartpubsub\[connect\]'"):
        start_session(SessionOptions(remote="sc://host"))


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "is_remote", lambda: True)


@pytest.mark.usefixtures("remote")
def test_a_client_reaches_files_without_the_driver(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("said")
    folder = Folder(None, os.path.relpath(tmp_path))
    folder.below("copies/again").take(tmp_path / "a file")
    table_in(tmp_path / "t", pa.table({"n": [1]}))

    assert folder.full_path == f"file:{tmp_path}"
    assert folder.names() == ["a file", "copies", "t"]
    assert folder.below("copies/again").read_text() == "said"
    assert [*folder.below("t").data_files()] == [f"file:{tmp_path}/t/0.parquet"]
    assert [found.full_path for found in folder.below("*e*").alike()] == [
        f"file:{tmp_path}/a file",
        f"file:{tmp_path}/copies",
    ]
    with pytest.raises(PipelineError, match="no braces; give a folder"):
        folder.below("{a,b}").alike()
    with pytest.raises(PipelineError, match="nowhere://host/x: "):
        Folder(None, "nowhere://host/x")
    folder.below("copies").delete()
    folder.below("a file").delete()
    assert folder.names() == ["t"]
