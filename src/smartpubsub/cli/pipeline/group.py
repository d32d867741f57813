"""smartpubsub pipeline."""

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "ingest": LazyCommand(
        "smartpubsub.cli.pipeline.ingest:ingest", "Read raw data into a table of records."
    ),
    "classify": LazyCommand(
        "smartpubsub.cli.pipeline.classify:classify",
        "Give records topics from their text.",
    ),
    "workload": LazyCommand(
        "smartpubsub.cli.pipeline.workload:workload",
        "Assign events to publishers and subscriptions to nodes.",
    ),
    "match": LazyCommand(
        "smartpubsub.cli.pipeline.match:match",
        "Pair every event with every subscription that it matches.",
    ),
    "archive": LazyCommand(
        "smartpubsub.cli.pipeline.archive:archive",
        "Archive the history of topics in tables, and write CAR files from them.",
    ),
    "campaign": LazyCommand(
        "smartpubsub.cli.pipeline.campaign:campaign", "Run the simulations of a plan."
    ),
    "measure": LazyCommand(
        "smartpubsub.cli.pipeline.measure:measure", "Compute tables of metrics from traces."
    ),
    "report": LazyCommand(
        "smartpubsub.cli.pipeline.report:report", "Draw the figures of the papers from a campaign."
    ),
    "run": LazyCommand(
        "smartpubsub.cli.pipeline.run:run",
        "Run the simulations of a plan, measure them and draw a report.",
    ),
    "shell": LazyCommand(
        "smartpubsub.cli.pipeline.shell:shell",
        "Open a Python prompt with a Spark session and the stages.",
    ),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def pipeline() -> None:
    """Process tables of events and subscriptions, with Spark.

    Tables are folders of Parquet files; docs/pipeline.md lists their columns. The same commands run
    on this machine and, with --master, on a cluster.

    \b
    Example:
      smartpubsub pipeline match --events events --subscriptions subscriptions --out matches
    """
