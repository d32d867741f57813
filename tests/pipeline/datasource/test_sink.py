"""Rows as events: each is published once, also if its batch is repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from smartpubsub import BlockingClient
from smartpubsub.pipeline.errors import PipelineError, plain_errors
from tests.pipeline.datasource.nodes import WAIT_S, node_in, published, stream_of


def history(client: BlockingClient, predicate: str) -> list[tuple[str, bytes]]:
    with client.subscribe(predicate, since="1d") as events:
        found = [events.get(timeout_s=WAIT_S) for _ in range(events.recalled)]
    return [(str(event.predicate), event.payload) for event in found]


def test_rows_become_events(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "node"
    with node_in(folder) as client:
        rows = spark.createDataFrame(
            [("são paulo/sp", 24.5, 1), ("lisbon", -3.0, 2)], "city string, temp double, n int"
        )
        sink = rows.coalesce(1).write.format("smartpubsub").mode("append")
        keyed = sink.options(
            node=str(folder), predicate="weather/{city}/temp={temp}", idempotencyKey="once"
        )
        keyed.save()
        keyed.save()

        assert history(client, "weather") == [
            (
                "weather/são%20paulo%2Fsp/temp=24.5",
                '{"city": "são paulo/sp", "temp": 24.5, "n": 1}'.encode(),
            ),
            ("weather/lisbon/temp=-3", b'{"city": "lisbon", "temp": -3.0, "n": 2}'),
        ]
        other = spark.createDataFrame([("madrid", 1.0, 3)], rows.schema).coalesce(1)
        problem = "rows of a repeated batch came in another order"
        with pytest.raises(PipelineError, match=problem), plain_errors():
            other.write.format("smartpubsub").mode("append").options(
                node=str(folder), predicate="weather/{city}", idempotencyKey="once"
            ).save()
        with pytest.raises(PipelineError, match="cannot be overwritten"), plain_errors():
            rows.write.format("smartpubsub").mode("overwrite").options(
                node=str(folder), topic="t"
            ).save()


def test_a_repeated_batch_publishes_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "node", tmp_path / "checkpoint"
    with node_in(folder) as client:
        source, target = client.create_topic("in").id, client.create_topic("out").id
        published(client, source, range(10))
        frame = stream_of(
            spark, folder, topic=source, startingOffsets="earliest", maxEventsPerTrigger=4
        ).select("payload")

        def run() -> None:
            query = (
                frame.writeStream.format("smartpubsub")
                .options(node=str(folder), topic=target, checkpointLocation=str(checkpoint))
                .trigger(availableNow=True)
                .start()
            )
            with plain_errors():
                assert query.awaitTermination(WAIT_S)

        run()
        # As if the driver had been killed before it recorded that the last batch is done.
        for name in ("2", ".2.crc"):
            (checkpoint / "commits" / name).unlink(missing_ok=True)
        published(client, source, [10])
        run()

        entries = client.topic(target).history()
        assert [json.loads(entry.payload)["number"] for entry in entries] == [*range(11)]


def test_a_function_for_each_batch_publishes_once(spark: SparkSession, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "node", tmp_path / "checkpoint"
    with node_in(folder) as client:
        source, target = client.create_topic("in").id, client.create_topic("out").id
        published(client, source, range(3))
        frame = stream_of(spark, folder, topic=source, startingOffsets="earliest")

        def publish_twice(batch: DataFrame, _number: int) -> None:
            for _ in range(2):
                sink = batch.select("payload").write.format("smartpubsub").mode("append")
                sink.options(node=str(folder), topic=target).save()

        query = (
            frame.writeStream.foreachBatch(publish_twice)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        with plain_errors():
            assert query.awaitTermination(WAIT_S)

        payloads = [entry.payload for entry in client.topic(target).history()]
        assert [json.loads(payload)["number"] for payload in payloads] == [0, 1, 2]
