"""The processor time of the later stages of a session, on little data.

python -m smartpubsub.bench.second_stage FOLDER DATA MAPPING TRACE
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from smartpubsub.bench.processes import tree_seconds
from smartpubsub.pipeline import session, stages
from smartpubsub.pipeline.mapping import read_mapping


def stage_seconds(
    spark: SparkSession, folder: str, data: str, mapping: str, trace: str
) -> dict[str, float]:
    """Run a first stage, and measure later ones with Java and all Python processes, by name.

    `folder` has the tables `e` and `s` for `match`, and gets the results.
    """
    columns = read_mapping(Path(mapping))

    def ingest(name: str) -> None:
        stages.ingest(spark, [data], f"{folder}/{name}", mapping=columns)

    def match() -> None:
        stages.match(spark, f"{folder}/e", f"{folder}/s", f"{folder}/matches")

    ingest("first")
    return {
        "measure": _seconds(lambda: stages.measure(spark, [trace], f"{folder}/measured")),
        "ingest": _seconds(lambda: ingest("second")),
        "match": _seconds(match),
    }


def _seconds(stage: Callable[[], object]) -> float:
    before = tree_seconds(os.getpid())
    stage()
    return tree_seconds(os.getpid()) - before


if __name__ == "__main__":
    with session() as started:
        print(json.dumps(stage_seconds(started, *sys.argv[1:])))  # noqa: T201
