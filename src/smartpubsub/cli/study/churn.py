"""smartpubsub sim study churn."""

import click

from smartpubsub.cli.output import json_option
from smartpubsub.cli.sim.progress import StderrProgress
from smartpubsub.cli.sim.text import percent
from smartpubsub.cli.study.options import nodes_option, seed_option, show
from smartpubsub.sim.studies.churn import Survived, study

CYCLES_MAX = 1000
HEAD = (
    "variant",
    "replaced",
    "events",
    "expected",
    "missing",
    "coverage",
    "duplicates",
    "stale",
    "mean ms",
    "p99 ms",
    "messages",
)


@click.command()
@nodes_option(60)
@click.option(
    "--cycles",
    type=click.IntRange(1, CYCLES_MAX),
    default=5,
    show_default=True,
    help="The number of refresh cycles.",
)
@seed_option
@json_option
def churn(nodes: int, cycles: int, seed: int, as_json: bool) -> None:
    """Show whether events reach all subscribers while nodes are replaced.

    In every refresh cycle, five minutes here, a tenth of the nodes crash for good, one after the
    other, and as many new nodes join with the same subscriptions. The remaining nodes publish all
    the time. Stale deliveries are of events older than the subscription.

    \b
    Examples:
      smartpubsub sim study churn
      smartpubsub sim study churn --cycles 2 --nodes 30 --json
    """
    found = study(nodes, seed, cycles, StderrProgress)
    show(found, HEAD, [cells(variant) for variant in found], as_json=as_json)


def cells(found: Survived) -> list[str]:
    """A variant as a row of the table."""
    return [
        found.variant,
        f"{found.replaced:,}",
        f"{found.events:,}",
        f"{found.expected:,}",
        f"{found.missing:,}",
        percent(found.coverage),
        f"{found.duplicates:,}",
        f"{found.stale:,}",
        f"{found.latency_ms_mean:,.1f}",
        f"{found.latency_ms_p99:,.1f}",
        f"{found.messages:,}",
    ]
