"""smartpubsub bench."""

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "matching": LazyCommand(
        "smartpubsub.cli.bench.matching:matching",
        "Measure the matching engines next to databases.",
    ),
    "node": LazyCommand(
        "smartpubsub.cli.bench.node:node",
        "Measure real nodes next to bare libp2p and other systems.",
    ),
    "sim": LazyCommand(
        "smartpubsub.cli.bench.sim:sim", "Measure the simulator next to another one."
    ),
    "pipeline": LazyCommand(
        "smartpubsub.cli.bench.pipeline:pipeline",
        "Measure the data pipeline next to SQL and to the engine alone.",
    ),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def bench() -> None:
    """Measure SmartPubSub next to its peers.

    Every figure is set against something else from the same run, because seconds alone say more
    about the machine.

    \b
    Examples:
      smartpubsub bench matching
      smartpubsub bench sim --full
    """
