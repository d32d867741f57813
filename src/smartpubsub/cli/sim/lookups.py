"""smartpubsub sim lookups."""

from collections.abc import Callable, Mapping
from math import isnan
from pathlib import Path

import click

from smartpubsub.cli.extras import needing
from smartpubsub.cli.output import ChartPath, json_option, print_json
from smartpubsub.sim.experiments.lookups import Result, run

NODES_MIN = 2


@click.command()
@click.option(
    "--nodes",
    type=click.IntRange(NODES_MIN, 1_000_000),
    default=1000,
    show_default=True,
    help="The number of nodes of the overlay.",
)
@click.option(
    "--dead",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="The share of nodes that die before the lookups, without notice.",
)
@click.option(
    "--lookups",
    "lookup_count",
    type=click.IntRange(1, 10_000_000),
    default=1000,
    show_default=True,
    help="The number of names to look up, and of values, at most 1000.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the simulated world.")
@click.option(
    "--plot",
    type=ChartPath(),
    help="Write a chart (PNG or SVG) of hops in networks of up to this size.",
)
@json_option
def lookups(
    nodes: int, dead: float, lookup_count: int, seed: int, plot: Path | None, as_json: bool
) -> None:
    """Look up nodes and values in a simulated overlay.

    Builds a Kademlia network, stores values in it, lets some nodes die without notice, and compares
    what lookups find with the true closest nodes and values.

    \b
    Examples:
      smartpubsub sim lookups --nodes 200 --dead 0.1
      smartpubsub sim lookups --nodes 1000 --dead 0.1 --lookups 10000 --seed 7 --json
      smartpubsub sim lookups --nodes 10000 --plot hops.svg
    """
    if isnan(dead) or round(dead * nodes) >= nodes:
        raise click.BadParameter("at least one node must be left to look", param_hint="--dead")
    if plot:
        plot_hops = chart_function()
    result = run(nodes, dead, lookup_count, seed, tell)
    if plot:
        smaller = {size: run(size, dead, lookup_count, seed, tell) for size in sizes_below(nodes)}
        plot_hops({**smaller, nodes: result}, plot)
    document = result.document()
    if as_json:
        print_json(document)
        return
    click.echo(f"closest node found  {result.closest_found:,} of {result.lookups:,} lookups")
    click.echo(f"values found        {result.values_found:,} of {result.values_stored:,} stored")
    hops = result.hop_figures()
    click.echo(f"hops                mean {hops['mean']}, p99 {hops['p99']}, max {hops['max']}")


def tell(text: str) -> None:
    click.echo(text, err=True)


def sizes_below(nodes: int) -> list[int]:
    """Smaller networks to compare with, each about three times as large as the previous."""
    return [size for size in (30, 100, 300, 1_000, 3_000, 10_000, 30_000) if size < nodes]


def chart_function() -> Callable[[Mapping[int, Result], Path], None]:
    """The function that draws the chart; its library is optional."""
    with needing("the chart", "bench"):
        from smartpubsub.reports.hops_chart import plot_hops
    return plot_hops
