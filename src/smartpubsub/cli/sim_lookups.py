"""smartpubsub sim lookups."""

import click

from smartpubsub.cli.output import json_option, print_json
from smartpubsub.sim.lookups import run

NODES_MIN = 2


@click.command()
@click.option(
    "--nodes",
    type=click.IntRange(min=NODES_MIN),
    default=1000,
    show_default=True,
    help="How many nodes the overlay has.",
)
@click.option(
    "--dead",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="The share of nodes that die, unnoticed, before the lookups.",
)
@click.option(
    "--lookups",
    "lookup_count",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="How many names are looked up, and at most 1000 values.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the simulated world.")
@json_option
def lookups(nodes: int, dead: float, lookup_count: int, seed: int, as_json: bool) -> None:
    """Look for nodes and values in a simulated overlay.

    Builds a Kademlia network, stores values in it, lets some nodes die without anybody noticing,
    and compares what lookups find with what is really there.

    \b
    Examples:
      smartpubsub sim lookups --nodes 200 --dead 0.1
      smartpubsub sim lookups --nodes 1000 --dead 0.1 --lookups 10000 --seed 7 --json
    """
    if round(dead * nodes) >= nodes:
        raise click.BadParameter("somebody has to be left to look", param_hint="--dead")
    result = run(nodes, dead, lookup_count, seed, lambda text: click.echo(text, err=True))
    document = result.document()
    if as_json:
        print_json(document)
        return
    click.echo(f"closest node found  {result.closest_found:,} of {result.lookups:,} lookups")
    click.echo(f"values found        {result.values_found:,} of {result.values_stored:,} stored")
    click.echo(f"hops                {document['hops']}")
