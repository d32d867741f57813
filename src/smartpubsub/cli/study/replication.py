"""smartpubsub sim study replication."""

import click

from smartpubsub.cli.output import json_option
from smartpubsub.cli.sim.progress import StderrProgress
from smartpubsub.cli.study.options import nodes_option, seed_option, show
from smartpubsub.sim.studies.replication import Stage, study

HEAD = (
    "backups",
    "stage",
    "subscribing ms",
    "event mean ms",
    "event p99 ms",
    "messages",
    "bytes",
    "copies mean",
    "copies max",
    "table bytes mean",
    "table bytes max",
    "missing",
)


@click.command()
@nodes_option(75)
@seed_option
@json_option
def replication(nodes: int, seed: int, as_json: bool) -> None:
    """Show the cost of replicating subscriptions.

    Runs the scenario replication with 1, 2, 3 and 5 backups. In each of its four stages every node
    subscribes once more, and events follow. Copies are the replicas of other nodes' children that a
    node keeps in case those fail; sizes are those of the encoding on the wire.

    \b
    Examples:
      smartpubsub sim study replication
      smartpubsub sim study replication --nodes 200 --seed 7 --json
    """
    found = study(nodes, seed, StderrProgress)
    show(found, HEAD, [cells(stage) for stage in found], as_json=as_json)


def cells(found: Stage) -> list[str]:
    """A stage as a row of the table."""
    return [
        f"{found.backups}",
        f"{found.stage}",
        f"{found.subscription_latency_ms:,.1f}",
        f"{found.event_latency_ms_mean:,.1f}",
        f"{found.event_latency_ms_p99:,.1f}",
        f"{found.messages:,}",
        f"{found.bytes:,}",
        f"{found.copies_mean:,.2f}",
        f"{found.copies_max:,}",
        f"{found.table_bytes_mean:,.0f}",
        f"{found.table_bytes_max:,}",
        f"{found.missing:,}",
    ]
