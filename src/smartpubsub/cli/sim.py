"""smartpubsub sim."""

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "run": LazyCommand("smartpubsub.cli.sim_run:run", "Run a protocol in a simulated world."),
    "compare": LazyCommand(
        "smartpubsub.cli.sim_compare:compare",
        "Run several protocols in the same world, side by side.",
    ),
    "replay": LazyCommand(
        "smartpubsub.cli.sim_replay:replay",
        "Show what went on around the first violation of a run.",
    ),
    "fuzz": LazyCommand(
        "smartpubsub.cli.sim_fuzz:fuzz", "Look for violations in worlds that chance has made."
    ),
    "study": LazyCommand(
        "smartpubsub.cli.sim_study:study",
        "Study ScoutSubs in situations that its promises are about.",
    ),
    "lookups": LazyCommand(
        "smartpubsub.cli.sim_lookups:lookups", "Look for nodes and values in a simulated overlay."
    ),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def sim() -> None:
    """Run the protocols in a simulated world.

    The same seed gives the same world, to the byte.

    \b
    Examples:
      smartpubsub sim run --protocol gossipsub --scenario event-burst
      smartpubsub sim lookups --nodes 200 --dead 0.1
    """
