"""smartpubsub node."""

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "run": LazyCommand("smartpubsub.cli.node.run:run", "Run a node until it is told to end."),
    "info": LazyCommand("smartpubsub.cli.node.info:info", "Say who and where a running node is."),
    "peers": LazyCommand("smartpubsub.cli.node.peers:peers", "List the peers that a node knows."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def node() -> None:
    """Run a node, and look at it.

    \b
    Examples:
      smartpubsub node run
      smartpubsub node info
    """
