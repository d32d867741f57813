"""smartpubsub route."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from smartpubsub.cli.explain import read
from smartpubsub.cli.extras import needing
from smartpubsub.cli.output import ChartPath, json_option, print_json
from smartpubsub.cli.route_text import route_text
from smartpubsub.cli.sim.progress import StderrProgress
from smartpubsub.cli.sim.protocols import variant_option
from smartpubsub.predicates import ATTRIBUTES_MAX, Predicate
from smartpubsub.protocols.registry import spec_of
from smartpubsub.protocols.spec import ProtocolOptions
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.inside import protocols_with_trees
from smartpubsub.sim.experiments.route import Route, only_subscriptions
from smartpubsub.sim.experiments.route import route as find_route
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.workloads import SCENARIOS, read_workload
from smartpubsub.workloads import scenario as make_scenario
from smartpubsub.workloads.actions import Workload

NODES = 60
NODES_MAX = 100_000
SCENARIO = "normal"


@click.command()
@click.argument("predicate_text", metavar="PREDICATE")
@click.option(
    "--nodes",
    type=click.IntRange(1, NODES_MAX),
    help=f"The number of nodes.  [default: {NODES}, or as many as the file names]",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the simulated world.")
@click.option(
    "--from",
    "start",
    metavar="NODE",
    help="The node that subscribes and publishes: name or number.  [default: a distant one]",
)
@variant_option
@click.option(
    "--subscriptions",
    type=click.Path(path_type=Path),
    help="A workload file with the subscriptions, instead of a scenario.",
)
@click.option(
    "--scenario",
    type=click.Choice([*SCENARIOS]),
    help=f"The scenario with the subscriptions.  [default: {SCENARIO}]",
)
@click.option("--plot", type=ChartPath(), help="Draw the attribute's tree (PNG or SVG).")
@json_option
def route(
    predicate_text: str,
    nodes: int | None,
    seed: int,
    start: str | None,
    variant: str,
    subscriptions: Path | None,
    scenario: str | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Show the path of a predicate in a simulated network.

    Simulates a network with the subscriptions of a scenario or a file, and shows the state of its
    nodes: the rendezvous of each attribute, the filters and backups of every node on the path from
    NODE to the rendezvous, and the nodes that would get an event with this predicate.

    \b
    Examples:
      smartpubsub route 'surf/trip/price[1000,1400]'
      smartpubsub route 'surf/bali' --nodes 1000 --from n7 --plot tree.svg
      smartpubsub route 'rain' --subscriptions my.jsonl --variant base-reliable --json
    """
    if subscriptions and scenario:
        raise click.UsageError("--scenario has no meaning beside --subscriptions; leave one out")
    predicate = read("PREDICATE", predicate_text, Predicate.parse, ATTRIBUTES_MAX)
    draw = chart_function() if plot else None
    workload = load(subscriptions, scenario or SCENARIO, nodes, seed)
    count = len(workload.names) if nodes is None else nodes
    number = None if start is None else node_number(start, workload.names, count)
    protocol = protocols_with_trees()[0]
    variant = spec_of(protocol).variant(variant or None)
    with StderrProgress() as progress:
        experiment = Experiment(
            RunOptions(
                protocol=protocol,
                protocol_options=ProtocolOptions(variant=variant),
                nodes=count,
                seed=seed,
            ),
            workload,
            progress=progress,
        )
        experiment.run()
    if experiment.was_interrupted:
        raise KeyboardInterrupt
    found = find_route(experiment, predicate, number)
    if draw and plot:
        draw(found, plot)
    if as_json:
        world = {"nodes": count, "seed": seed, "variant": variant}
        print_json({**found.document(), **world})
    else:
        click.echo(route_text(found))


def load(path: Path | None, scenario: str, nodes: int | None, seed: int) -> Workload:
    """The subscriptions of a file or of a scenario."""
    if path is None:
        count = NODES if nodes is None else nodes
        return only_subscriptions(make_scenario(scenario, keys=range(count), seed=seed))
    return only_subscriptions(read_workload(path))


def node_number(start: str, names: tuple[str, ...], count: int) -> int:
    """The number of a node, given by its name, or by its number if no node has that name."""
    if start in names:
        return names.index(start)
    if start.isdecimal() and int(start) < count:
        return int(start)
    known = f"{names[0]} to {names[-1]}" if len(names) > 1 else names[0]
    raise click.BadParameter(
        f"there is no node {start!r}; the names are {known}, the numbers 0 to {count - 1}",
        param_hint="--from",
    )


def chart_function() -> Callable[[Route, Path], None]:
    """The function that draws the chart; its library is optional."""
    with needing("the chart", "bench"):
        from smartpubsub.reports.route_chart import plot_route
    return plot_route
