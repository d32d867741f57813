"""smartpubsub testbed."""

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "run": LazyCommand("smartpubsub.cli.testbed.run:run", "Run a protocol on real nodes."),
    "soak": LazyCommand(
        "smartpubsub.cli.testbed.soak:soak", "Run whole nodes for hours, under faults."
    ),
    "hostile": LazyCommand(
        "smartpubsub.cli.testbed.hostile:hostile", "Run whole nodes under attack by hostile peers."
    ),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def testbed() -> None:
    """Run the protocols on real nodes on this machine.

    \b
    Example:
      smartpubsub testbed run --protocol scoutsubs --scenario fault --nodes 20
    """
