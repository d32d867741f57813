"""smartpubsub sim."""

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "lookups": LazyCommand(
        "smartpubsub.cli.sim_lookups:lookups", "Look for nodes and values in a simulated overlay."
    ),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def sim() -> None:
    """Run the protocols in a simulated world.

    The same seed gives the same world, to the byte.

    \b
    Example:
      smartpubsub sim lookups --nodes 200 --dead 0.1
    """
