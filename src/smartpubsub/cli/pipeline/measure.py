"""smartpubsub pipeline measure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from smartpubsub.cli.pipeline.options import SparkOptions, format_option, spark_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from smartpubsub.pipeline.outputs import TableFormat
    from smartpubsub.pipeline.summary import Summary

WINDOW_MS_MAX = 86_400_000

window_option = click.option(
    "--window-ms",
    type=click.IntRange(1, WINDOW_MS_MAX),
    default=1_000,
    show_default=True,
    help="The length of the time windows.",
)


@click.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACES...")
@click.option("--out", required=True, metavar="DIR", help="The folder for the tables of metrics.")
@window_option
@format_option
@spark_options
def measure(
    traces: tuple[str, ...],
    out: str,
    window_ms: int,
    table_format: TableFormat,
    spark: SparkOptions,
) -> None:
    """Compute tables of metrics from traces.

    TRACES are folders written by sim run --trace, testbed run --trace or a campaign, in Parquet,
    their default format. Deliveries, losses, duplicates, latencies, hops and messages are counted
    for every run, node, topic, event and time window. The table of runs agrees with the runs' own
    results, up to rounding.

    \b
    Examples:
      smartpubsub pipeline measure my-campaign --out my-campaign/metrics
      smartpubsub pipeline measure trace-1 trace-2 --out metrics --window-ms 100 --json
    """
    spark.check_inputs("a table of traces", *traces)

    def stage(session: SparkSession | None) -> Summary:
        from smartpubsub.pipeline import stages

        return stages.measure(session, traces, out, window_ms=window_ms, table_format=table_format)

    spark.show(spark.run("measure", stage, *traces, out))
