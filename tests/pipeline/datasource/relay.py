"""A driver to be killed: publishes what one side of a node has on the other, each event once."""

from __future__ import annotations

import json
import sys

from smartpubsub.pipeline.sessions import SessionOptions, spark_session
from tests.pipeline.conftest import QUICK


def relay(master: str, node: str, source: dict[str, str], target: str, checkpoint: str) -> None:
    settings = (*QUICK, ("spark.executor.memory", "512m"))
    options = SessionOptions(master=master, memory_mb=1024, settings=settings)
    with spark_session(options) as spark:
        rows = spark.readStream.format("smartpubsub").options(**source).load().select("payload")
        sink = rows.writeStream.format("smartpubsub").options(node=node, topic=target)
        sink = sink.option("checkpointLocation", checkpoint)
        sink.trigger(processingTime="200 milliseconds").start().awaitTermination()


if __name__ == "__main__":
    master, node, source, target, checkpoint = sys.argv[1:]
    relay(master, node, json.loads(source), target, checkpoint)
