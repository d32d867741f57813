"""What is measured from traces is what the runs say of themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from smartpubsub.cli.main import main
from smartpubsub.pipeline import little_run, stages
from smartpubsub.pipeline.delivery_order import order_violations
from smartpubsub.pipeline.distributions import spread
from smartpubsub.pipeline.little import NeedsSparkError
from smartpubsub.pipeline.measure import measure
from smartpubsub.pipeline.metric_schemas import METRIC_TABLES
from smartpubsub.pipeline.result_schemas import RUNS
from smartpubsub.pipeline.traces import read_traces
from smartpubsub.sim.judging import spread as sim_spread

PLAN = """
[defaults]
traces = true
[[experiment]] # Restarts, and with them deliveries that are repeated.
name = "churn"
protocol = ["scoutsubs", "gossipsub"]
variant = ["redirect-reliable", "base-unreliable"]
nodes = 15
events = 40
churn = { up_s = 1, down_s = 1, share = 0.5 }
[[experiment]]
name = "faults"
protocol = ["scoutsubs", "floodsub"]
scenario = "fault"
crash = ["before", "mid"]
nodes = 15
backups = 0
faults = 3
[[experiment]]
name = "cut"
protocol = "scoutsubs"
nodes = 15
events = 30
cut = { at_s = 1, for_s = 2 }
[[experiment]]
name = "topics"
protocol = "pulsarcast"
scenario = "reddit"
nodes = 12
events = 40
ordered = [false, true]
[[experiment]] # Jitter, so that nothing has a round latency, and losses.
name = "lossy"
protocol = "scoutsubs"
variant = "base-unreliable"
scenario = "event-burst"
jitter_ms = 30
loss = 0.05
nodes = 15
[[experiment]]
name = "file"
protocol = ["scoutsubs", "floodsub", "fastdelivery"]
workload = "w.jsonl"
nodes = 8
"""

WORKLOAD = [
    {"node": "a", "subscribe": "surf"},
    {"node": "a", "subscribe": "surf"},
    {"node": "a", "subscribe": "surf/price[10,20]"},
    {"node": "b", "subscribe": "s%C3%A3o%20paulo"},
    {"settle": True},
    {"node": "c", "publish": "surf/price=15", "at_ms": 0},
    {"node": "c", "publish": "surf/price=25", "at_ms": 1},
    {"node": "c", "publish": "ski", "at_ms": 2},
    {"node": "a", "publish": "são%20paulo", "at_ms": 3},
    {"node": "a", "unsubscribe": "surf", "at_ms": 5},
    {"node": "c", "publish": "surf/price=12", "at_ms": 4_000},
    {"node": "a", "crash": True, "at_ms": 6_000},
    {"node": "c", "publish": "surf/price=11", "at_ms": 7_000},
    {"node": "a", "restart": True, "at_ms": 9_000},
    {"node": "c", "publish": "surf/price=13", "at_ms": 30_000},
]

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def campaign(
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,  # noqa: ARG001 - commands use it
) -> Path:
    """A campaign with traces, and what was measured of them in `metrics`."""
    folder = tmp_path_factory.mktemp("campaign")
    lines = "".join(json.dumps(line) + "\n" for line in WORKLOAD)
    (folder / "w.jsonl").write_text(lines, encoding="utf-8")
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    out = folder / "out"
    # Whether the runs go well is not the question: churn is more than some variants promise.
    assert main(["pipeline", "campaign", str(folder / "plan.toml"), "--out", str(out)]) in (0, 1)
    assert main(["pipeline", "measure", str(out), "--out", str(out / "metrics")]) == 0
    return out


def rows_of(table: str, campaign: Path) -> Rows:
    rows: Rows = pq.ParquetDataset(campaign / "metrics" / table).read().to_pylist()
    return rows


def results_of(campaign: Path) -> dict[str, dict[str, Any]]:
    return {row["run"]: row for row in pq.read_table(campaign / "results").to_pylist()}


def is_what_was_said(measured: object, said: object) -> bool:
    """A result has three decimals, so what is measured lies within half of the last one."""
    if isinstance(measured, float) and isinstance(said, float):
        return abs(measured - said) <= 0.0005 + 1e-9
    return measured == said


def test_runs_are_measured_as_they_say_of_themselves(campaign: Path) -> None:
    own, measured = results_of(campaign), rows_of("runs", campaign)

    assert len(measured) == len(own) == 14
    for row in measured:
        said = own[row["run"]]
        for name in RUNS.names:
            assert is_what_was_said(row[name], said[name]), (name, row[name], said)
    # All this happened, so that it was worth comparing.
    for name in ("missing", "wire_duplicates"):
        assert any(row[name] for row in measured), name
    assert any(row["order_violations"] is None for row in measured)
    assert any(row["published"] < row["injected"] for row in measured)


@pytest.mark.parametrize(
    ("table", "counted"),
    [
        ("by_node", ("expected", "delivered", "missing", "unexpected", "wire_duplicates")),
        ("by_topic", ("injected", "expected", "delivered", "missing", "wire_duplicates")),
        ("by_event", ("expected", "delivered", "missing", "unexpected", "wire_duplicates")),
        ("by_window", ("injected", "expected", "delivered", "missing")),
    ],
)
def test_parts_add_up_to_the_run(table: str, counted: tuple[str, ...], campaign: Path) -> None:
    rows = rows_of(table, campaign)

    for run, said in results_of(campaign).items():
        mine = [row for row in rows if row["run"] == run]
        for name in counted:
            assert sum(row[name] for row in mine) == said[name], (name, said["command"])


def test_traffic_of_nodes_and_times_adds_up(campaign: Path) -> None:
    own = results_of(campaign)

    for table in ("by_node", "by_window", "loads"):
        rows = rows_of(table, campaign)
        for run, said in own.items():
            assert sum(row["sent"] for row in rows if row["run"] == run) == said["messages"]
            assert sum(row["sent_bytes"] for row in rows if row["run"] == run) == said["bytes"]
    for run, said in own.items():
        assert sum(row["run"] == run for row in rows_of("by_node", campaign)) == said["nodes"]


def test_crashes_and_returns_stand_in_their_windows(campaign: Path) -> None:
    windows = rows_of("by_window", campaign)
    for run, said in results_of(campaign).items():
        mine = [row for row in windows if row["run"] == run]
        if said["scenario"] == "workload":
            [crash] = [row for row in mine if row["crashed"]]
            [back] = [row for row in mine if row["returned"]]
            assert abs(back["start_ms"] - crash["start_ms"] - 3_000) <= 1_000
        elif said["scenario"] == "fault":
            assert sum(row["crashed"] for row in mine) <= 3


def test_topics_are_predicates_without_their_numbers(campaign: Path) -> None:
    run = next(
        run
        for run, said in results_of(campaign).items()
        if (said["protocol"], said["scenario"]) == ("scoutsubs", "workload")
    )
    topics = {row["topic"]: row for row in rows_of("by_topic", campaign) if row["run"] == run}

    assert topics.keys() == {"surf", "surf/price", "ski", "são%20paulo"}
    assert topics["surf"]["subscriptions"] == 2
    assert topics["surf"]["subscribers"] == 1
    assert topics["surf/price"]["injected"] == 5
    assert topics["ski"]["expected"] == 0
    assert topics["ski"]["coverage_injected"] == 1.0
    assert topics["ski"]["latency_ms_mean"] is None


def test_topics_that_nodes_know_by_content_ids_have_their_names(campaign: Path) -> None:
    runs = {row["run"] for row in rows_of("runs", campaign) if row["protocol"] == "pulsarcast"}

    for table in ("by_topic", "by_event", "subscribed", "deliveries"):
        topics = {row["topic"] for row in rows_of(table, campaign) if row["run"] in runs}
        assert "reddit.com" in topics
        assert not any(topic.startswith("bafy") for topic in topics)


@pytest.fixture(scope="module")
def large(campaign: Path, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """The same metrics, as they are computed of large inputs."""
    out = tmp_path_factory.mktemp("large")
    rows = read_traces(spark, [str(campaign)])
    assert measure(rows, str(out / "metrics")) == rows.count()
    return out


@pytest.mark.parametrize("table", [table.name for table in METRIC_TABLES])
def test_little_and_large_inputs_give_the_same_tables(
    table: str, campaign: Path, large: Path
) -> None:
    def ordered(rows: Rows) -> list[str]:
        return sorted(json.dumps(row, sort_keys=True) for row in rows)

    assert ordered(rows_of(table, campaign)) == ordered(rows_of(table, large))


def test_a_trace_that_stands_for_too_many_pairs_is_measured_by_tasks(
    campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = next((campaign / "traces").iterdir())
    monkeypatch.setattr(little_run, "PAIRS_MAX", 0)

    with pytest.raises(NeedsSparkError):
        stages.measure(None, [str(trace)], str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_little_inputs_need_no_job(campaign: Path, tmp_path: Path, spark: SparkSession) -> None:
    trace = str(next((campaign / "traces").iterdir()))
    spark.sparkContext.setJobGroup("little", "measure of one trace")
    try:
        stages.measure(spark, [trace], str(tmp_path))
        jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("little")
    finally:
        spark.sparkContext.setJobGroup("others", "all other tests")

    assert not jobs


def test_a_later_event_finds_more_subscriptions(campaign: Path) -> None:
    for row in rows_of("by_event", campaign):
        assert row["subscriptions"] >= 4


def test_tables_have_their_declared_columns(campaign: Path) -> None:
    for table in METRIC_TABLES:
        found = pq.ParquetDataset(campaign / "metrics" / table.name).read()
        assert found.column_names == table.names
        for column in table.columns:
            if not column.is_nullable:
                assert found.column(column.name).null_count == 0, (table.name, column.name)


def test_orders_are_counted_by_publisher_and_subscription(spark: SparkSession) -> None:
    def got(*came: tuple[int, str]) -> list[tuple[int, int, int, str]]:
        return [(at_us, 0, 1, numbers) for at_us, numbers in came]

    rows = [
        ("x", "aa-1-1", 5, "a", got((40, "1,2"))),
        ("x", "aa-1-2", 5, "a", got((30, "1"))),
        ("x", "aa-1-10", 5, "a", got((20, "1"), (50, "1,2"))),
        ("x", "bb-1-1", 5, "a", got((10, "1"))),
        ("x", "aa-1-3", 6, "a", got((60, "1"))),
        ("x", "aa-1-5", 5, "b", got((15, "7"))),
        ("x", "aa-1-4", 5, "b", got((16, "7"))),
        ("y", "aa-1-1", 5, "a", got((1, "1"))),
        ("y", "aa-2-1", 5, "a", got((2, "1"))),
    ]
    kind = "array<struct<at_us:bigint,row:bigint,hops:bigint,subscriptions:string>>"
    columns = f"run string, event string, node bigint, topic string, got {kind}"
    frame = spark.createDataFrame(rows, columns)
    about = spark.createDataFrame([("x", ["b"]), ("y", [])], "run string, unordered array<string>")

    # To subscription 1 of node 5 came 10, 2, 1; a second time does not count, nor does topic b.
    assert [tuple(row) for row in order_violations(frame, about).collect()] == [("x", 3)]


def test_spreads_are_the_same_as_the_simulator_s(spark: SparkSession) -> None:
    values = [3, 1, 4, 1, 5, 9, 2, 6, 5, 35, 8, 9, 79, 3, 2, 3, 84, 6, 2, 6]
    rows = [*(("a", value) for value in values), ("b", 7)]
    frame = spark.createDataFrame(rows, "k string, v bigint")
    names = ("mean", "sd", "p50", "p95", "p99", "max")

    found = {row.k: row.asDict() for row in spread(frame, ["k"], "v", "x", names).collect()}

    for key, wanted in (("a", values), ("b", [7])):
        for name, figure in sim_spread.spread(wanted, *names).items():
            assert found[key][f"x_{name}"] == pytest.approx(figure, abs=5e-4)


def complaint(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["pipeline", "measure", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_what_is_no_trace_is_one_line(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "out")]
    assert "no such file or folder" in complaint([str(tmp_path / "no"), *out], capsys)
    (tmp_path / "empty").mkdir()
    assert "empty is empty" in complaint([str(tmp_path / "empty"), *out], capsys)
    results = str(campaign / "results")
    assert "is not a table of traces: it has no column 'at_us'" in complaint(
        [results, *out], capsys
    )


def test_a_trace_that_was_cut_short_is_one_line(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = next((campaign / "traces").iterdir())
    table = pq.ParquetDataset(trace).read()
    (tmp_path / "cut").mkdir()
    pq.write_table(table.slice(0, 100), tmp_path / "cut" / "part-00000.parquet")

    error = complaint([str(tmp_path / "cut"), "--out", str(tmp_path / "out")], capsys)

    assert "the trace of run 'cut' has no end" in error
    assert not (tmp_path / "out").exists()


def test_two_traces_of_one_name_are_one_line(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = next((campaign / "traces").iterdir())
    other = tmp_path / "x" / trace.name
    other.mkdir(parents=True)
    table: pa.Table = pq.ParquetDataset(trace).read()
    pq.write_table(table, other / "part-00000.parquet")

    error = complaint([str(trace), str(other), "--out", str(tmp_path / "out")], capsys)

    assert "there are several traces of a run" in error
