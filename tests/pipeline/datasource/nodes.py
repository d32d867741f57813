"""Nodes for Spark to read: in a thread of the test, or in processes that can be killed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import smartpubsub
from smartpubsub import BlockingClient
from smartpubsub.pipeline.errors import plain_errors
from tests.client.running import running_node

WAIT_S = 300


@contextmanager
def node_in(folder: Path, **settings: Any) -> Iterator[BlockingClient]:
    """A node in a thread, and its client."""
    with running_node(folder, **settings), smartpubsub.connect(data=folder) as client:
        yield client


def published(client: BlockingClient, topic: str, numbers: Sequence[int]) -> list[str]:
    """Publish numbers as JSON in a topic; their content ids."""
    there = client.topic(topic)
    return [str(there.publish(json={"number": number}).content_id) for number in numbers]


def numbers_in(rows: Sequence[Row]) -> list[int]:
    return [json.loads(row.payload)["number"] for row in rows]


def batch_of(spark: SparkSession, folder: Path, **options: object) -> DataFrame:
    given = {name: str(value) for name, value in options.items()}
    return spark.read.format("smartpubsub").options(**{"node": str(folder), **given}).load()


def stream_of(spark: SparkSession, folder: Path, **options: object) -> DataFrame:
    given = {name: str(value) for name, value in options.items()}
    return spark.readStream.format("smartpubsub").options(node=str(folder), **given).load()


def run_to_end(frame: DataFrame, checkpoint: Path, out: Path) -> StreamingQuery:
    """Append what there is to a table."""
    query = (
        frame.writeStream.option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(str(out), format="parquet")
    )
    with plain_errors():
        assert query.awaitTermination(WAIT_S)
    return query
