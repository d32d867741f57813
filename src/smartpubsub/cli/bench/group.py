"""smartpubsub bench."""

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "matching": LazyCommand(
        "smartpubsub.cli.bench.matching:matching",
        "Measure the matching engines beside databases.",
    ),
    "node": LazyCommand(
        "smartpubsub.cli.bench.node:node",
        "Measure real nodes beside bare libp2p and other systems.",
    ),
    "hostile": LazyCommand(
        "smartpubsub.cli.bench.hostile:hostile",
        "Measure how much a hostile peer delays the events of other nodes.",
    ),
    "sustained": LazyCommand(
        "smartpubsub.cli.bench.sustained:sustained",
        "Measure a steady load for long, and overload.",
    ),
    "load": LazyCommand(
        "smartpubsub.cli.bench.load:load",
        "Measure the cost of an event as load and subscribers grow.",
    ),
    "client": LazyCommand(
        "smartpubsub.cli.bench.client:client",
        "Measure pub beside an empty Python program, and the memory of an idle node.",
    ),
    "gateway": LazyCommand(
        "smartpubsub.cli.bench.gateway:gateway",
        "Measure many readers of Server-Sent Events on one node.",
    ),
    "sim": LazyCommand("smartpubsub.cli.bench.sim:sim", "Measure the simulator beside SimPy."),
    "pipeline": LazyCommand(
        "smartpubsub.cli.bench.pipeline:pipeline",
        "Measure the data pipeline beside SQL and the engine alone.",
    ),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def bench() -> None:
    """Measure SmartPubSub beside other systems.

    Every figure is compared with something else from the same run, because seconds alone depend on
    the machine.

    \b
    Examples:
      smartpubsub bench matching
      smartpubsub bench sim --full
    """
