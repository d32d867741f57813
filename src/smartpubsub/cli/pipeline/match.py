"""smartpubsub pipeline match."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from smartpubsub.cli.pipeline.options import SparkOptions, format_option, spark_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from smartpubsub.pipeline.outputs import TableFormat
    from smartpubsub.pipeline.summary import Summary


@click.command()
@click.option("--events", required=True, metavar="DIR", help="A table of events.")
@click.option("--subscriptions", required=True, metavar="DIR", help="A table of subscriptions.")
@click.option("--out", required=True, metavar="DIR", help="The folder for the table of matches.")
@format_option
@spark_options
def match(
    events: str, subscriptions: str, out: str, table_format: TableFormat, spark: SparkOptions
) -> None:
    """Pair every event with every subscription that it matches.

    Writes a table with the columns event_id and subscription_id, and replaces an earlier one.
    Publishers and times are ignored.

    \b
    Examples:
      smartpubsub pipeline match --events w/events --subscriptions w/subscriptions --out matches
      smartpubsub pipeline match --events e --subscriptions s --out m --json --master spark://h:7077
    """
    spark.check_inputs("a table of events", events)
    spark.check_inputs("a table of subscriptions", subscriptions)

    def stage(session: SparkSession | None) -> Summary:
        from smartpubsub.pipeline import stages

        return stages.match(session, events, subscriptions, out, table_format=table_format)

    spark.show(spark.run("match", stage, events, subscriptions, out))
