"""Tables in the Delta format: the same rows, each write once, with versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from smartpubsub.cli.main import main
from smartpubsub.pipeline import delta
from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.pipeline.folders import DirectFiles
from smartpubsub.pipeline.metric_schemas import METRIC_TABLES
from smartpubsub.pipeline.outputs import Output, TableFormat
from smartpubsub.pipeline.schemas import MATCHES
from smartpubsub.pipeline.tables import read_table
from smartpubsub.predicates import Predicate
from tests.pipeline.given import numbered, table_in

pytestmark = pytest.mark.usefixtures("spark")

MAPPING = 'topics = ["city"]\nranges = ["temp"]\n'
PLAN = """
[[experiment]]
protocol = "floodsub"
nodes = 5
seed = [1, 2]
traces = true
"""

Captured = pytest.CaptureFixture[str]
Rows = list[dict[str, Any]]


def run(capsys: Captured, *words: object) -> dict[str, Any]:
    assert main(["pipeline", *map(str, words), "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def rows_in(table: Path) -> Rows:
    rows: Rows = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return sorted(rows, key=str)


def test_a_repeated_stage_writes_once_and_new_inputs_replace_the_rows(
    tmp_path: Path, capsys: Captured
) -> None:
    table_in(tmp_path / "e", numbered("event_id", [Predicate.parse("surf")]))
    table_in(tmp_path / "s", numbered("subscription_id", [Predicate.parse("surf")]))
    words = ("match", "--events", tmp_path / "e", "--subscriptions", tmp_path / "s")
    again = (*words, "--out", tmp_path / "m", "--format", "delta")

    assert run(capsys, *again)["versions"] == {"matches": 0}
    assert run(capsys, *again)["versions"] == {"matches": 0}
    table_in(tmp_path / "more", numbered("event_id", [Predicate.parse("surf")] * 2))
    (tmp_path / "more" / "0.parquet").rename(tmp_path / "e" / "0.parquet")
    changed = run(capsys, *again)

    assert changed["versions"] == {"matches": 1}
    assert changed["rows_out"] == {"matches": 2}
    assert rows_in(tmp_path / "m") == [
        {"event_id": number, "subscription_id": 0} for number in range(2)
    ]


@pytest.mark.parametrize(("one", "other"), [("delta", "parquet"), ("parquet", "delta")])
def test_rows_are_not_added_in_another_format(
    one: TableFormat, other: TableFormat, spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.range(0, 3, 1, 1).selectExpr("id as event_id", "id as subscription_id")
    path = str(tmp_path / "m")
    Output(one, "test", 1).write(frame, path, MATCHES)

    with pytest.raises(PipelineError, match=r"--format delta"):
        Output(other, "test", 2).write(frame, path, MATCHES, is_more=True)

    assert read_table(spark, path, MATCHES).count() == 3


def test_tasks_write_what_one_commit_names(spark: SparkSession, tmp_path: Path) -> None:
    output = Output("delta", "test", 7)
    path = str(tmp_path / "m")
    frame = spark.range(0, 10, 1, 2).selectExpr("id as event_id", "id as subscription_id")

    for piece in (0, 1, 1):
        output.write(frame, path, MATCHES, piece=piece, is_more=piece > 0)

    assert DeltaTable(path).version() == 1
    assert len(rows_in(tmp_path / "m")) == 20
    # What an interrupted write leaves behind is no part of the table.
    frame.write.mode("append").parquet(path)
    assert read_table(spark, path, MATCHES).count() == 20


def test_rows_are_added_without_a_look_at_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_: DirectFiles) -> None:
        raise AssertionError("the files were listed")

    monkeypatch.setattr(DirectFiles, "all", never)
    rows = pa.table({"event_id": [1], "subscription_id": [2]})

    for number in range(3):
        Output("delta", "test", number).write_rows(
            None, rows, str(tmp_path / "m"), MATCHES, is_more=True
        )

    assert len(rows_in(tmp_path / "m")) == 3


def test_files_that_are_joined_have_the_same_rows_and_writes(
    spark: SparkSession, tmp_path: Path
) -> None:
    output, path = Output("delta", "test", 7), str(tmp_path / "m")
    frame = spark.range(0, 10, 1, 1).selectExpr("id as event_id", "id as subscription_id")
    for piece in range(3):
        output.write(frame, path, MATCHES, piece=piece, is_more=piece > 0)
    before = rows_in(tmp_path / "m")

    assert delta.compact(spark, path) == 1

    assert rows_in(tmp_path / "m") == before
    assert read_table(spark, path, MATCHES).count() == 30
    assert not output.write(frame, path, MATCHES, piece=2, is_more=True)


def test_sources_are_replaced_one_by_one(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "m.toml").write_text(MAPPING, encoding="utf-8")
    for name, rows in (("a b", "lisbon,1\nporto,x\n"), ("c%", "faro,2\n")):
        (tmp_path / f"{name}.csv").write_text(f"city,temp\n{rows}", encoding="utf-8")

    def ingest(name: str) -> dict[str, Any]:
        words = ("ingest", tmp_path / f"{name}.csv", "--mapping", tmp_path / "m.toml")
        return run(capsys, *words, "--out", tmp_path / "r", "--format", "delta")

    first, again = ingest("a b"), ingest("a b")
    assert (first["bad"], first["versions"]) == (1, {"records": 0})
    assert {**again, "seconds": first["seconds"]} == first
    ingest("c%")
    (tmp_path / "a b.csv").write_text("city,temp\nbraga,3\n", encoding="utf-8")
    done = ingest("a b")

    assert (done["bad"], done["versions"]) == (0, {"records": 2})
    found = [(row["source"], row["topics"]) for row in rows_in(tmp_path / "r")]
    assert sorted(found) == [("a b.csv", ["braga"]), ("c%.csv", ["faro"])]
    assert rows_in(tmp_path / "r" / "_bad") == []
    words = ("workload", "--events", tmp_path / "r", "--nodes", 2, "--out", tmp_path / "w")
    made = run(capsys, *words, "--format", "delta")
    assert made["versions"] == {"events": 0, "subscriptions": 0, "nodes": 0}
    assert made["rows_out"]["events"] == len(rows_in(tmp_path / "w" / "events")) == 2


def test_a_plan_in_delta_has_the_rows_of_parquet(
    tmp_path: Path, capsys: Captured, spark: SparkSession
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    out = tmp_path / "out"
    plan, delta = tmp_path / "plan.toml", ("--format", "delta")

    done = run(capsys, "run", plan, "--out", out, *delta)
    again = run(capsys, "measure", out, "--out", out / "metrics", *delta)

    results, measured, drawn = (part["versions"] for part in done["stages"])
    assert results == {"results": 0}
    assert measured == again["versions"] == {table.name: 0 for table in METRIC_TABLES}
    assert drawn == {**results, **measured}
    page = (out / "report" / "report.html").read_text(encoding="utf-8")
    assert "Versions of the Delta tables: results 0," in page
    run(capsys, "measure", out, "--out", tmp_path / "plain")
    for table in METRIC_TABLES:
        plain = pq.ParquetDataset(tmp_path / "plain" / table.name).read().to_pylist()
        assert rows_in(out / "metrics" / table.name) == sorted(plain, key=str)
    # A larger plan adds its runs.
    plan.write_text(PLAN.replace("2]", "2, 3]"), encoding="utf-8")
    more = run(capsys, "campaign", plan, "--out", out, *delta)
    assert more["versions"] == {"results": 1}
    assert len(rows_in(out / "results")) == 3
    # Metrics of an interrupted measurement are not drawn with older ones.
    [table] = [table for table in METRIC_TABLES if table.name == "deliveries"]
    nothing = spark.createDataFrame([], table.schema)
    Output("delta", "measure", 1).write(nothing, str(out / "metrics" / "deliveries"), table)
    assert main(["pipeline", "report", str(out), "--out", str(tmp_path / "report")]) == 0
    assert "metrics of" in capsys.readouterr().err
