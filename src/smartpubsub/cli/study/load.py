"""smartpubsub sim study load."""

import click

from smartpubsub.cli.output import json_option
from smartpubsub.cli.sim.progress import StderrProgress
from smartpubsub.cli.sim.text import percent
from smartpubsub.cli.study.options import nodes_option, seed_option, show
from smartpubsub.sim.studies.load import Load, Skew, study

HEAD = (
    "mapping",
    "fan-out",
    "keys",
    "messages mean",
    "p99/mean",
    "max/mean",
    "bytes mean",
    "p99/mean",
    "max/mean",
    "filters mean",
    "p99/mean",
    "max/mean",
    "coverage",
)


@click.command()
@nodes_option(200)
@seed_option
@json_option
def load(nodes: int, seed: int, as_json: bool) -> None:
    """Show how evenly the load is spread over the nodes.

    Runs the scenario power-law, in which few names and nodes have most subscriptions and events,
    with ten events for each node: with and without a limit on the children of a node, with and
    without splitting busy attributes over several keys, and with another choice of the attribute
    under which a subscription is kept. Shows what a node sends, how many filters it keeps, and how
    far the busiest nodes are above the mean.

    \b
    Examples:
      smartpubsub sim study load
      smartpubsub sim study load --nodes 500 --json
    """
    found = study(nodes, seed, StderrProgress)
    show(found, HEAD, [cells(way) for way in found], as_json=as_json)


def cells(found: Load) -> list[str]:
    """A way to distribute the load as a row of the table."""
    return [
        found.mapping,
        f"{found.fan_out_max or 'any'}",
        f"{found.keys}",
        *skew_cells(found.messages),
        *skew_cells(found.bytes),
        *skew_cells(found.filters),
        percent(found.coverage),
    ]


def skew_cells(skew: Skew) -> list[str]:
    """One distribution in three cells."""
    return [f"{skew.mean:,.1f}", f"{skew.p99_over_mean:,.1f}", f"{skew.max_over_mean:,.1f}"]
