"""smartpubsub bench pipeline."""

import click

from smartpubsub.cli.bench.showing import print_report, print_step, seed_option
from smartpubsub.cli.output import json_option
from smartpubsub.cli.pipeline.options import needing_spark

PARTS = ("match", "ingest", "campaign", "nodes", "skew", "little")
"""Repeated here so that help needs no Spark; a test compares the two."""


@click.command()
@seed_option("generated data")
@click.option(
    "--part",
    "parts",
    type=click.Choice(PARTS),
    multiple=True,
    help="Measure this part only; may be repeated.",
)
@click.option(
    "--subscriptions",
    type=click.IntRange(min=1_000),
    default=1_000_000,
    show_default=True,
    help="The number of subscriptions that events are matched with.",
)
@click.option(
    "--events",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="The number of events for match; the join in SQL gets 5,000 of them.",
)
@json_option
def pipeline(
    seed: int, parts: tuple[str, ...], subscriptions: int, events: int, as_json: bool
) -> None:
    """Measure the data pipeline beside SQL and the engine alone.

    match: events and subscriptions, by the stage and by a join in Spark SQL. ingest: generated
    comments, beside spark.read.json. campaign: 400 short simulations. nodes: a node as source and
    sink. skew: match where a third of all subscriptions name one attribute, and its memory. little:
    commands on a few rows, beside an empty session. Takes about five minutes; Ctrl-C prints the
    figures measured so far. The exit code is 0 for any ratios.

    \b
    Examples:
      smartpubsub bench pipeline
      smartpubsub bench pipeline --json
      smartpubsub bench pipeline --part match --events 100000
    """
    with needing_spark():
        from smartpubsub.bench.pipeline import Sizes, new_report, run
        from smartpubsub.pipeline.errors import plain_errors
    sizes = Sizes(subscriptions=subscriptions, events=events)
    sizes = sizes._replace(skew=sizes.skew._replace(subscriptions=subscriptions))
    report = new_report()
    try:
        with plain_errors():
            run(report, seed, progress=print_step, sizes=sizes, parts=parts)
    finally:  # The report has what was measured before an interruption or an error.
        if report.figures:
            print_report(report, as_json)
