"""The order of deliveries to subscriptions."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from smartpubsub.protocols.publication import EventId
from smartpubsub.sim.judging.checkers.order import inversions


def order_violations(deliveries: DataFrame, about: DataFrame) -> DataFrame:
    """By run, the number of pairs of a publisher's events delivered in the wrong order.

    Topics that promise no order are left out.
    """
    arrivals = (
        deliveries.where("got is not null")
        .join(about.select("run", "unordered"), "run")
        .where(sf.coalesce(~sf.array_contains("unordered", sf.col("topic")), sf.lit(True)))
        .select("run", "event", "node", sf.explode("got").alias("one"))
        .select(
            "run",
            "event",
            "node",
            sf.explode(sf.split("one.subscriptions", ",")).alias("subscription"),
            sf.struct("one.at_us", "one.row").alias("at"),
        )
        .groupBy("run", "event", "node", "subscription")
        .agg(sf.min("at").alias("at"))
    )
    # An id consists of the publisher, its incarnation and the number of the event.
    part = sf.split("event", "-")
    number = sf.struct(
        part[1].cast("bigint").alias("start"), part[2].cast("bigint").alias("number")
    )
    sequences = (
        arrivals.groupBy("run", "node", "subscription", part[0].alias("publisher"))
        .agg(sf.array_sort(sf.collect_list(sf.struct("at", number.alias("id")))).alias("came"))
        .select("run", sf.col("came.id").alias("ids"))
    )
    # Nearly all are in order, which Spark can check without Python.
    wrong = sequences.where(sf.array_sort("ids") != sf.col("ids"))
    return (
        wrong.mapInArrow(_counted, "run string, inversions bigint")
        .groupBy("run")
        .agg(sf.sum("inversions").alias("order_violations"))
    )


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = [
            inversions([EventId(b"", one["start"], one["number"]) for one in sequence])
            for sequence in batch.column("ids").to_pylist()
        ]
        yield pa.RecordBatch.from_arrays(
            [batch.column("run"), pa.array(found, pa.int64())], ["run", "inversions"]
        )
