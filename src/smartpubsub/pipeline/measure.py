"""The stage `measure`: computes tables of metrics from traces.

The calls and deliveries of applications are read from the traces once and written as tables; all
metrics are then computed from those. No step holds a whole run in memory.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from smartpubsub.pipeline import trace_calls as calls
from smartpubsub.pipeline.expected import pairs
from smartpubsub.pipeline.folders import Folder, MaybeSpark
from smartpubsub.pipeline.metric_schemas import METRIC_TABLES
from smartpubsub.pipeline.metrics import (
    node_metrics,
    published_metrics,
    run_metrics,
    topic_metrics,
    window_metrics,
)
from smartpubsub.pipeline.outputs import PARQUET, Output
from smartpubsub.pipeline.traces import checked_count, ends

WINDOW_MS = 1_000

_TABLES = {table.name: table for table in METRIC_TABLES}


def measure(
    rows: DataFrame, out: str, *, window_ms: int = WINDOW_MS, output: Output = PARQUET
) -> int:
    """Write all tables of metrics below a folder; return the number of rows of the traces."""
    spark = rows.sparkSession
    count = checked_count(rows)
    remove_metrics(spark, out, output)
    # Each query needs these few rows, so they are read from the traces once.
    rare = _here(rows.where("what in ('end', 'fault', 'create')"))
    about, fault = _here(ends(rare)), _here(calls.faults(rare))
    orphan, names = _here(calls.orphans(rare, fault, about)), _here(calls.topic_names(rare))
    made: dict[str, DataFrame] = {}

    def write(name: str, frame: DataFrame) -> None:
        path, table = f"{out}/{name}", _TABLES[name]
        output.write(frame, path, table)
        made[name] = output.read(spark, path, table.schema)

    wanted, said = calls.subscriptions(rows, fault), calls.events(rows, fault, orphan, names)
    write("deliveries", pairs(said, wanted, calls.deliveries(rows), fault, about))
    write("subscribed", _subscribed(wanted, names))
    write("copies", _copies(rows))
    write("loads", _loads(rows, about, window_ms))
    write("by_event", published_metrics(said, made))
    write("by_node", node_metrics(about, made))
    write("by_topic", topic_metrics(made))
    write("by_window", window_metrics(about, fault, made, window_ms))
    write("runs", run_metrics(_with_names(about, names), made))
    return count


def remove_metrics(spark: MaybeSpark, out: str, output: Output) -> None:
    """Remove all tables: after an interruption, older ones would be taken for those of this run.

    In Delta, transactions show which tables belong together.
    """
    for name in _TABLES:
        if output.format == "parquet":
            Folder(spark, f"{out}/{name}").delete()


def _here(frame: DataFrame) -> DataFrame:
    """A small table in the driver's memory, which is sent to all tasks that need it."""
    return sf.broadcast(frame.sparkSession.createDataFrame(frame.toArrow(), schema=frame.schema))


def _with_names(about: DataFrame, names: DataFrame) -> DataFrame:
    """The options of the runs, with the names of topics that promise no order."""
    called = (
        about.select("run", sf.explode("unordered").alias("predicate"))
        .join(names, ["run", "predicate"], "left")
        .groupBy("run")
        .agg(sf.collect_set(sf.coalesce("called", "predicate")).alias("unordered"))
    )
    return about.drop("unordered").join(called, "run", "left")


def _subscribed(subscriptions: DataFrame, names: DataFrame) -> DataFrame:
    of_node = Window.partitionBy("run", "node").orderBy("called_us", "subscription")
    return subscriptions.join(names, ["run", "predicate"], "left").select(
        "run",
        "node",
        "subscription",
        "predicate",
        calls.topic_of("predicate", "called").alias("topic"),
        "called_us",
        sf.get("in_force", sf.lit(0)).start_us.alias("in_force_us"),
        (sf.get("in_force", sf.lit(0)).start_us - sf.col("called_us")).alias("latency_us"),
        sf.row_number().over(of_node).cast("bigint").alias("place"),
    )


def _copies(rows: DataFrame) -> DataFrame:
    counted = rows.where("what = 'copy'").groupBy("run", "event", "node").count()
    return counted.withColumnRenamed("count", "copies")


def _loads(rows: DataFrame, about: DataFrame, window_ms: int) -> DataFrame:
    """Traffic counts from when the overlay was complete: joining is not part of a run."""

    def count(what: str, name: str) -> Column:
        return sf.count_if(sf.col("what") == what).alias(name)

    window = sf.floor((sf.col("at_us") - sf.col("began_us")) / (window_ms * 1000))
    return (
        rows.where("what in ('send', 'receive', 'drop')")
        .join(about.select("run", "began_us"), "run")
        .where("at_us >= began_us")
        .groupBy("run", "node", window.alias("window"))
        .agg(
            count("send", "sent"),
            count("receive", "received"),
            sf.coalesce(sf.sum(sf.when(sf.col("what") == "send", sf.col("size"))), sf.lit(0)).alias(
                "sent_bytes"
            ),
            count("drop", "dropped"),
        )
    )
