"""smartpubsub sim study redirect."""

import click

from smartpubsub.cli.output import json_option
from smartpubsub.cli.sim.progress import StderrProgress
from smartpubsub.cli.study.options import nodes_option, seed_option, show
from smartpubsub.sim.studies.redirect import Unpopular, study

HEAD = (
    "variant",
    "events",
    "delivered",
    "missing",
    "hops mean",
    "hops max",
    "messages per event",
    "mean ms",
    "p99 ms",
)


@click.command()
@nodes_option(1000)
@seed_option
@json_option
def redirect(nodes: int, seed: int, as_json: bool) -> None:
    """Show what shortcuts save for events that few nodes want.

    Fifty topics have one or two subscribers each, anywhere in the network, and nodes all over it
    publish on them: once without shortcuts past nodes that only relay, and once with.

    \b
    Examples:
      smartpubsub sim study redirect
      smartpubsub sim study redirect --nodes 5000 --json
    """
    found = study(nodes, seed, StderrProgress)
    show(found, HEAD, [cells(variant) for variant in found], as_json=as_json)


def cells(found: Unpopular) -> list[str]:
    """A variant as a row of the table."""
    return [
        found.variant,
        f"{found.events:,}",
        f"{found.delivered:,}",
        f"{found.missing:,}",
        f"{found.hops_mean:.2f}",
        f"{found.hops_max}",
        f"{found.messages_per_event:,.2f}",
        f"{found.latency_ms_mean:,.1f}",
        f"{found.latency_ms_p99:,.1f}",
    ]
