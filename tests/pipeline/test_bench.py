"""The pipeline's benchmark, on data small enough for a test."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from smartpubsub.bench import little, pipeline, second_stage, skew, spark_nodes, sql_match
from smartpubsub.bench.comparison import DisagreementError
from smartpubsub.bench.processes import tree_seconds
from smartpubsub.bench.processor_time import processor_seconds
from smartpubsub.bench.skew import Skew
from smartpubsub.cli.bench.pipeline import PARTS
from smartpubsub.cli.main import main
from smartpubsub.errors import SmartPubSubError
from smartpubsub.matching.native_engine import is_available

needs_native = pytest.mark.skipif(not is_available(), reason="the native engine is not built")
SMALL = pipeline.Sizes(
    subscriptions=2_000,
    events=200,
    sql_events=100,
    native_events=100,
    lines=200,
    ingest_tries=1,
    runs=4,
    topic_events=100,
    sink_rows=20,
    skew=Skew(subscriptions=3_000, popular_events=3, other_events=20),
)
WORDS = ("--subscriptions", "2000", "--events", "200")


@pytest.fixture
def small(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "Sizes", SMALL._replace)
    # Six starts of Spark would take longer than all the rest; their time is no matter of a test.
    monkeypatch.setattr(little, "processor_seconds", lambda command: float(len(command)))
    monkeypatch.setattr(little, "_second_stages", partial(second_stage.stage_seconds, spark))
    monkeypatch.setattr(skew, "_peaks", _matched_here)
    monkeypatch.setattr(spark_nodes, "TRIES", 1)


def _matched_here(command: list[str], folder: Path) -> tuple[float, float]:
    """Run a command in this process, which has a session."""
    start = command.index("pipeline")
    words = [str(folder / word) if word in ("e", "s", "m") else word for word in command[start:]]
    assert main(words) == 0
    return 1.0, 1.0


def test_processor_time_includes_what_a_command_leaves_behind() -> None:
    work = "sum(number * number for number in range(3_000_000))"
    child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {work!r}])"

    alone = processor_seconds([sys.executable, "-c", "pass"])
    assert processor_seconds([sys.executable, "-c", child]) > 2 * alone


def test_the_time_of_a_process_includes_its_children() -> None:
    work = "import time\nwhile time.process_time() < 0.5: pass"
    before = tree_seconds(os.getpid())

    subprocess.run([sys.executable, "-c", work], check=True)

    assert tree_seconds(os.getpid()) - before >= 0.5


def test_a_command_that_fails_is_an_error() -> None:
    with pytest.raises(SmartPubSubError, match="code 3"):
        processor_seconds([sys.executable, "-c", "raise SystemExit(3)"])


@needs_native
@pytest.mark.usefixtures("small", "large")
def test_report_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "pipeline", *WORDS, "--json"]) == 0

    output = capsys.readouterr()
    document = json.loads(output.out[output.out.index('{\n  "machine"') :])
    assert set(document) == {"machine", "figures", "ratios"}
    bounds = {r["name"]: r.get("at_least", r.get("at_most")) for r in document["ratios"]}
    promised = {
        "match/sql join": 20,
        "match/native single process": 0.5,
        "ingest lines/s": 100_000,
        "ingest/json": 0.7,
        "ingest of zst/json": 0.7,
        "campaign/ideal": 1.3,
        "source rows/s": 100_000,
        "source/parquet": 0.5,
        "measure/empty session": 3,
        "ingest/empty session": 3,
        "match/empty session": 3,
        "seconds of a second stage": 3,
        "skew: MB of the executor": 2048,
    }
    assert promised.items() <= bounds.items()
    assert all(figure["value"] > 0 for figure in document["figures"])
    assert "matching: the join in SQL" in output.err


@needs_native
@pytest.mark.usefixtures("small", "spark")
def test_ways_that_disagree_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = sql_match.join

    def wrong(events: DataFrame, subscriptions: DataFrame) -> DataFrame:
        return honest(events, subscriptions).where("false")

    monkeypatch.setattr(pipeline, "join", wrong)

    with pytest.raises(DisagreementError, match="please report"):
        pipeline.run(
            pipeline.new_report(), 1, progress=lambda _: None, sizes=SMALL, parts=["match"]
        )


@needs_native
@pytest.mark.usefixtures("spark")
def test_an_interrupted_benchmark_prints_what_it_has_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(bench: pipeline.Bench) -> None:
        bench.report.add("match", 1.0, "events/s")

    def interrupted(_: pipeline.Bench) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(pipeline.MEASUREMENTS, "match", measured)
    monkeypatch.setitem(pipeline.MEASUREMENTS, "ingest", interrupted)

    assert main(["bench", "pipeline", "--json"]) == 130

    figures = json.loads(capsys.readouterr().out)["figures"]
    assert figures == [{"name": "match", "value": 1.0, "unit": "events/s"}]


def test_the_command_knows_all_parts() -> None:
    assert [*pipeline.MEASUREMENTS] == [*PARTS]
