"""Averages of live readings: read from a network, published back, and archived in Delta.

    smartpubsub node run --data a
    python examples/spark_alerts.py --node a --out alerts
    smartpubsub pub --data a weather/lisbon/temp=24.5

Each window of each city gets one event `alert/CITY/average=...` and one row of the table, also if
this program is killed and started again.
"""

import argparse
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from smartpubsub.pipeline.sessions import SessionOptions, spark_session

READINGS = "published_at timestamp, topics array<string>, temp double"


def averages(spark: SparkSession, node: str, seconds: int) -> DataFrame:
    """The average of each city in each window, when the window is over."""
    source = spark.readStream.format("smartpubsub").schema(READINGS)
    readings = source.options(
        node=node, predicate="weather/temp", startingOffsets="earliest"
    ).load()
    # Anyone can publish; a reading without a number or a city must not end the query.
    readings = readings.where("temp is not null and size(topics) > 1")
    window, city = sf.window("published_at", f"{seconds} seconds"), sf.get("topics", sf.lit(1))
    found = readings.withWatermark("published_at", "2 seconds").groupBy(window, city.alias("city"))
    return found.agg(sf.avg("temp").alias("average"), sf.count("temp").alias("readings"))


def archive(rows: pa.Table, table: str, number: int) -> None:
    """Append the rows of a batch, unless an earlier run of the batch has done so."""
    is_there = DeltaTable.is_deltatable(table)
    done = DeltaTable(table).transaction_version("alerts") if is_there else None
    if done is None or done < number:
        batch = CommitProperties(app_transactions=[Transaction("alerts", number)])
        write_deltalake(table, rows, mode="append", commit_properties=batch)


def run(node: str, out: Path, seconds: int) -> None:
    """Publish and archive averages until the program is ended."""

    def publish(batch: DataFrame, number: int) -> None:
        columns = ("city", "window.start", "average", "readings")
        # A repeated batch has its rows in the same order.
        rows = batch.select(*columns).orderBy("start", "city").coalesce(1).persist()
        found = rows.toArrow()
        if len(found):
            sink = rows.write.format("smartpubsub").mode("append")
            sink.options(node=node, predicate="alert/{city}/average={average}").save()
            archive(found, str(out / "table"), number)
        rows.unpersist()

    few = SessionOptions(settings=(("spark.sql.shuffle.partitions", "1"),))
    with spark_session(few) as spark:
        query = averages(spark, node, seconds).writeStream.foreachBatch(publish)
        query = query.option("checkpointLocation", str(out / "checkpoint"))
        query.trigger(processingTime="1 second").start().awaitTermination()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="averages of live readings")
    parser.add_argument("--node", required=True, help="the data folder of a running node")
    parser.add_argument("--out", required=True, type=Path, help="the folder of the results")
    parser.add_argument("--seconds", type=int, default=60, help="the length of a window")
    given = parser.parse_args()
    run(given.node, given.out, given.seconds)
