"""One session for several stages: in a program, at a prompt, and for a whole plan."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

from smartpubsub.cli.main import main
from smartpubsub.pipeline import session, stages
from smartpubsub.pipeline.little import CHOSEN, QUICK, sized
from smartpubsub.pipeline.worker_daemon import path_without_zip
from smartpubsub.predicates import Predicate
from tests.pipeline.given import numbered, pairs_in, table_in

PLAN = """
[[experiment]]
protocol = "scoutsubs"
nodes = 6
traces = true
"""

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A folder with an event `e` and a subscription `s` that it matches."""
    table_in(tmp_path / "e", numbered("event_id", [Predicate.parse("surf/price=3")]))
    table_in(tmp_path / "s", numbered("subscription_id", [Predicate.parse("surf")]))
    return tmp_path


def test_a_process_has_one_session(spark: SparkSession) -> None:
    assert session() is not None
    assert session().sparkContext is spark.sparkContext
    assert session(settings={"spark.app.name": "x"}).sparkContext is spark.sparkContext


def _where_spark_is(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})


def test_workers_import_spark_from_its_package_and_not_from_the_zip_file(
    spark: SparkSession,
) -> None:
    found = spark.range(1).mapInArrow(_where_spark_is, "file string").collect()

    assert {row["file"] for row in found} == {pyspark.__file__}


def test_a_zip_file_of_another_spark_stays_on_the_path() -> None:
    package = Path(pyspark.__file__).parent
    own, other = str(package / "python/lib/pyspark.zip"), "/opt/spark/python/lib/pyspark.zip"

    assert path_without_zip([own, *sys.path]) == sys.path
    assert path_without_zip([other, *sys.path]) == [other, *sys.path]


def test_stages_are_functions_of_paths_that_return_a_summary(
    spark: SparkSession, tables: Path
) -> None:
    done = stages.match(spark, str(tables / "e"), str(tables / "s"), str(tables / "m"))

    assert pairs_in(tables / "m") == [(0, 0)]
    assert done.rows_in == {"events": 1, "subscriptions": 1}
    assert "matches out" in repr(done)


def test_little_inputs_set_the_session_for_one_stage(spark: SparkSession, tables: Path) -> None:
    before = {name: spark.conf.get(name) for name in QUICK}
    kept = "spark.sql.shuffle.partitions"
    chosen = spark.conf.get(CHOSEN)
    try:
        spark.conf.set(CHOSEN, kept)
        spark.conf.set(kept, "3")
        spark.conf.set("spark.sql.adaptive.enabled", "true")
        with sized(spark, [str(tables)]) as is_little:
            assert is_little
            assert spark.conf.get("spark.sql.adaptive.enabled") == "false"
            assert spark.conf.get(kept) == "3"
        assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    finally:
        for name, value in {**before, CHOSEN: chosen}.items():
            spark.conf.set(name, str(value))


@pytest.mark.usefixtures("spark")
def test_a_prompt_has_the_stages(
    tables: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        f"here = {str(tables)!r}",
        'match(f"{here}/e", f"{here}/s", f"{here}/m")',
        'match(f"{here}/no", f"{here}/s", f"{here}/m")',
        'spark.read.parquet(f"{here}/m").count() + 41',
        'spark.read.format("smartpubsub").options(node=f"{here}/no").load().count()',
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))

    assert main(["pipeline", "shell"]) == 0

    output = capsys.readouterr()
    assert "matches out" in output.out
    assert "42" in output.out
    assert "/no: no such file or folder" in output.err
    assert "smartpubsub: option 'topic': name either the topics" in output.err
    assert "Traceback" not in output.err
    assert SparkSession.getActiveSession() is not None


@pytest.mark.usefixtures("spark")
def test_a_plan_is_run_measured_and_drawn(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    out = tmp_path / "out"
    arguments = ["pipeline", "run", str(tmp_path / "plan.toml"), "--out", str(out)]

    assert main([*arguments, "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert [part["stage"] for part in document["stages"]] == ["campaign", "measure", "report"]
    measured = pq.read_table(out / "metrics" / "runs").to_pylist()
    assert [row["run"] for row in measured] == [
        row["run"] for row in pq.read_table(out / "results").to_pylist()
    ]
    assert (out / "report" / "report.html").exists()

    # A second time, finished runs stay, and runs without a trace are not measured.
    assert main(arguments) == 0
    assert "kept" in capsys.readouterr().out


@pytest.mark.usefixtures("spark")
def test_runs_without_traces_are_drawn_without_being_measured(
    tmp_path: Path, capsys: Captured
) -> None:
    plan = PLAN.replace("true", "false")
    (tmp_path / "plan.toml").write_text(plan, encoding="utf-8")
    out = tmp_path / "out"

    assert main(["pipeline", "run", str(tmp_path / "plan.toml"), "--out", str(out)]) == 0

    assert "measure" not in capsys.readouterr().out
    assert (out / "report" / "report.html").exists()
