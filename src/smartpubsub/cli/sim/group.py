"""smartpubsub sim."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "run": LazyCommand("smartpubsub.cli.sim.run:run", "Run a protocol in a simulated world."),
    "compare": LazyCommand(
        "smartpubsub.cli.sim.compare:compare",
        "Run several protocols in the same world, side by side.",
    ),
    "replay": LazyCommand(
        "smartpubsub.cli.sim.replay:replay",
        "Show the events around the first violation of a run.",
    ),
    "fuzz": LazyCommand("smartpubsub.cli.sim.fuzz:fuzz", "Search for violations in random worlds."),
    "study": LazyCommand(
        "smartpubsub.cli.study.group:study",
        "Study ScoutSubs under load, failures and churn.",
    ),
    "lookups": LazyCommand(
        "smartpubsub.cli.sim.lookups:lookups", "Look up nodes and values in a simulated overlay."
    ),
}


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """Make SIGTERM end a run as Ctrl-C does: with the result so far, and all files closed."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
@click.pass_context
def sim(context: click.Context) -> None:
    """Run the protocols in a simulated world.

    The same seed gives the same run, byte for byte.

    \b
    Examples:
      smartpubsub sim run --protocol gossipsub --scenario event-burst
      smartpubsub sim lookups --nodes 200 --dead 0.1
    """
    context.with_resource(_ended_as_by_ctrl_c())
