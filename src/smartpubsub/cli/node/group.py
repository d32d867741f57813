"""smartpubsub node."""

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "run": LazyCommand("smartpubsub.cli.node.run:run", "Run a node until Ctrl-C or SIGTERM."),
    "info": LazyCommand(
        "smartpubsub.cli.node.info:info", "Show a running node and its subscriptions."
    ),
    "network-key": LazyCommand(
        "smartpubsub.cli.node.network_key:network_key", "Make the key of a private network."
    ),
    "peers": LazyCommand("smartpubsub.cli.node.peers:peers", "List the peers that a node knows."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def node() -> None:
    """Run and inspect a node.

    \b
    Examples:
      smartpubsub node run
      smartpubsub node info
    """
