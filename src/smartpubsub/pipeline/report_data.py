"""The data of a report: figures of many runs, aggregated by Spark into small tables."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from smartpubsub.pipeline.campaign import ABOUT_FILE
from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.pipeline.folders import Folder, require
from smartpubsub.pipeline.metric_schemas import (
    DELIVERIES,
    METRIC_TABLES,
    NODES,
    PUBLISHED,
    SUBSCRIBED,
    TOPICS,
    WINDOWS,
)
from smartpubsub.pipeline.outputs import is_delta, last_write, versions_of
from smartpubsub.pipeline.result_schemas import RESULTS, RUNS
from smartpubsub.pipeline.run_names import named_apart
from smartpubsub.pipeline.schemas import Table
from smartpubsub.pipeline.tables import read_table

Rows: TypeAlias = list[dict[str, Any]]

GROUP = ("protocol", "variant", "scenario", "nodes")
"""Runs with equal keys differ only in their seed, and are drawn as one."""
WINDOWS_MAX = 200

_NAMES = StructType([RUNS.schema[name] for name in ("run", *GROUP, "backups")])


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """Everything that a report shows; each row of a small table begins with the keys of a group."""

    title: str
    about: str
    paper: str | None
    runs: Rows
    latencies: Rows = field(default_factory=list)
    """The number of deliveries by milliseconds."""
    loads: Rows = field(default_factory=list)
    """Messages per node in percentiles, from the least busy to the busiest."""
    topics: Rows = field(default_factory=list)
    progress: Rows = field(default_factory=list)
    """Cumulative messages and deliveries over time."""
    stages: Rows = field(default_factory=list)
    """Latencies by the number of backups and of subscriptions per node."""
    missing: tuple[str, ...] = ()
    """Missing tables of metrics, although others exist: `measure` was interrupted."""
    versions: dict[str, int] = field(default_factory=dict)
    """The versions of the tables that are in the Delta format."""


def report_inputs(spark: SparkSession, path: str) -> list[str]:
    """The folders that a report reads: traces are not among them."""
    path = path.rstrip("/")
    require(Folder(spark, path), "a campaign, or of tables of metrics")
    inputs = [f"{path}/{RESULTS.name}", f"{path}/metrics"]
    inputs += [f"{path}/{table.name}" for table in METRIC_TABLES]
    return [name for name in inputs if Folder(spark, name).exists()]


def report_data(spark: SparkSession, path: str) -> ReportData:
    """Read the folder of a campaign, or of `measure`."""
    path = path.rstrip("/")
    require(Folder(spark, path), "a campaign, or of tables of metrics")
    about = _about(spark, path)
    has_results = Folder(spark, f"{path}/results").exists()
    is_measured = bool(_measured(spark, path))
    if not has_results and not is_measured:
        raise PipelineError(
            f"{path} has neither results/ of a campaign nor tables of measure; give another folder"
        )
    metrics = path if is_measured else f"{path}/metrics"
    there = _measured(spark, metrics)
    missing = tuple(t.name for t in METRIC_TABLES if t.name not in there) if there else ()
    if not has_results and RUNS.name in missing:
        raise PipelineError(f"{path} has no table of {', '.join(missing)}; run measure again")
    table = RESULTS if has_results else RUNS
    runs = read_table(spark, f"{path}/{table.name}", table)
    rows = named_apart(_plain(runs.orderBy(*GROUP, "backups", "seed", "run")))
    if not rows:
        raise PipelineError(f"{path} has no runs; run a campaign first")
    paths = {name: f"{metrics}/{name}" for name in sorted(there)}
    versions = versions_of(spark, {table.name: f"{path}/{table.name}", **paths})
    if missing or not there:
        return ReportData(**about, runs=rows, missing=missing, versions=versions)
    names = [tuple(row[key] for key in ("run", *GROUP, "backups")) for row in rows]
    measured = sf.broadcast(spark.createDataFrame(names, _NAMES))

    def read(table: Table) -> DataFrame:
        return read_table(spark, f"{metrics}/{table.name}", table).join(measured, "run")

    deliveries = read(DELIVERIES)
    return ReportData(
        **about,
        runs=rows,
        latencies=_latencies(deliveries),
        loads=_loads(read(NODES)),
        topics=_topics(read(TOPICS)),
        progress=_progress(read(WINDOWS)),
        stages=_stages(read(SUBSCRIBED), deliveries, read(PUBLISHED)),
        versions=versions,
    )


def _measured(spark: SparkSession, metrics: str) -> set[str]:
    """The complete tables of metrics; in Delta, those of the last measurement."""
    paths = {table.name: f"{metrics}/{table.name}" for table in METRIC_TABLES}
    if not is_delta(spark, paths[DELIVERIES.name]):
        return {name for name, path in paths.items() if Folder(spark, path).has_files()}
    writes = {name: last_write(spark, path, "measure") for name, path in paths.items()}
    return {name for name, write in writes.items() if write == writes[DELIVERIES.name]}


def _about(spark: SparkSession, path: str) -> dict[str, Any]:
    about = {"title": path.rsplit("/", 1)[-1], "about": "", "paper": None}
    file = Folder(spark, f"{path}/{ABOUT_FILE}")
    if file.exists():
        about |= json.loads(file.read_text())
    return about


def _latencies(deliveries: DataFrame) -> Rows:
    ms = sf.floor(sf.col("latency_us") / 1000).alias("ms")
    counted = deliveries.where("latency_us is not null").groupBy(*GROUP, ms)
    return _plain(counted.agg(sf.count("*").alias("count")).orderBy(*GROUP, "ms"))


def _loads(nodes: DataFrame) -> Rows:
    shares = [sf.lit(hundredth / 100) for hundredth in range(101)]
    loads = nodes.groupBy(*GROUP).agg(
        sf.percentile_approx("sent", sf.array(*shares), 10_000).alias("sent"),
        sf.avg("sent").alias("mean"),
    )
    return _plain(loads.orderBy(*GROUP))


def _topics(topics: DataFrame) -> Rows:
    def total(name: str) -> Column:
        return sf.sum(name).alias(name)

    runs = sf.count_distinct("run").alias("runs")
    counted = topics.groupBy(*GROUP, "topic").agg(
        runs, *map(total, ("injected", "subscriptions", "expected", "delivered", "copies"))
    )
    return _plain(counted.orderBy(*GROUP, sf.desc("injected"), "topic"))


def _progress(windows: DataFrame) -> Rows:
    """By group and time window: messages, deliveries, crashes and returns of all its runs."""
    sums = windows.where(sf.col("window") < WINDOWS_MAX).groupBy(*GROUP, "start_ms")
    names = ("sent", "arrived", "crashed", "returned")
    totals = sums.agg(*(sf.sum(name).alias(name) for name in names))
    return _plain(totals.orderBy(*GROUP, "start_ms"))


def _stages(subscribed: DataFrame, deliveries: DataFrame, published: DataFrame) -> Rows:
    """In the scenario replication: latencies by the number of subscriptions per subscriber."""
    only = sf.col("scenario") == "replication"
    wanted = (
        subscribed.where(only)
        .groupBy("backups", sf.col("place").alias("stage"))
        .agg((sf.avg("latency_us") / 1000).alias("subscription_ms"))
    )
    subscribers = (
        subscribed.where(only).groupBy("run").agg(sf.count_distinct("node").alias("subscribers"))
    )
    stage = sf.round(sf.col("subscriptions") / sf.col("subscribers")).cast("bigint").alias("stage")
    events = published.where(only).join(subscribers, "run").select("run", "event", stage)
    came = (
        deliveries.where(only & sf.col("is_expected") & sf.col("latency_us").isNotNull())
        .join(events, ["run", "event"])
        .groupBy("backups", "stage")
        .agg((sf.avg("latency_us") / 1000).alias("event_ms"))
    )
    return _plain(wanted.join(came, ["backups", "stage"], "left").orderBy("backups", "stage"))


def _plain(frame: DataFrame) -> Rows:
    return [row.asDict(recursive=True) for row in frame.collect()]
