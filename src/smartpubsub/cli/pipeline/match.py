"""smartpubsub pipeline match."""

import click

from smartpubsub.cli.pipeline.options import SparkOptions, spark_options


@click.command()
@click.option("--events", required=True, metavar="DIR", help="A table of events.")
@click.option("--subscriptions", required=True, metavar="DIR", help="A table of subscriptions.")
@click.option("--out", required=True, metavar="DIR", help="The folder for the table of matches.")
@spark_options
def match(events: str, subscriptions: str, out: str, spark: SparkOptions) -> None:
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
    with spark.session("match") as session:
        from smartpubsub.pipeline import match as matching
        from smartpubsub.pipeline.match_files import can_read_files, matches_in_files
        from smartpubsub.pipeline.schemas import EVENTS, MATCHES, SUBSCRIPTIONS
        from smartpubsub.pipeline.summary import Summary
        from smartpubsub.pipeline.tables import check_output, read_table, write_table

        published = read_table(session, events, EVENTS, matching.EVENT_COLUMNS)
        wanted = read_table(session, subscriptions, SUBSCRIPTIONS, matching.SUBSCRIPTION_COLUMNS)
        check_output(session, out, [events, subscriptions])
        index_name = matching.share_index(wanted)
        if can_read_files(session, events):
            found = matches_in_files(session, events, index_name)
        else:
            found = matching.matches_in(published, index_name)
        write_table(found, out, MATCHES)
        summary = Summary(
            stage="match",
            rows_in={"events": published.count(), "subscriptions": wanted.count()},
            rows_out={"matches": session.read.parquet(out).count()},
            seconds=spark.seconds(),
        )
    spark.show(summary)
