"""The stage `report`: the page of a campaign or of metrics, from tables on any file system."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from smartpubsub.pipeline.little import sized
from smartpubsub.pipeline.report_data import report_data, report_inputs
from smartpubsub.pipeline.summary import Summary
from smartpubsub.reports.report import FIGURES, write_report


def report(spark: SparkSession, source: str, out: str, title: str | None = None) -> Summary:
    """Draw the figures of a campaign, or of the tables of `measure`."""
    began_at = time.monotonic()
    with sized(spark, report_inputs(spark, source)):
        data = report_data(spark, source)
    notes = []
    if data.missing:
        notes = [
            f"the metrics of {source} are incomplete, so their figures are left out; there is no"
            f" table of {', '.join(data.missing)}: run measure again"
        ]
    page = write_report(replace(data, title=title) if title else data, Path(out))
    return Summary(
        stage="report",
        rows_in={"runs": len(data.runs)},
        rows_out={"figures": len([*Path(out, FIGURES).glob("*.png")])},
        seconds=time.monotonic() - began_at,
        more={"page": str(page), **({"versions": data.versions} if data.versions else {})},
        notes=tuple(notes),
    )
