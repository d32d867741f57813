"""smartpubsub node peers."""

from __future__ import annotations

import click

from smartpubsub.cli.node.options import data_option, running_node
from smartpubsub.cli.output import json_option, print_json


@click.command()
@data_option
@json_option
def peers(data: str | None, as_json: bool) -> None:
    """List the peers that a node knows.

    Prints one peer on each line, with an address if one is known.

    \b
    Examples:
      smartpubsub node peers
      smartpubsub node peers --data b --json
    """
    with running_node(data) as node:
        found = node.ask("peers")
    if as_json:
        print_json(found)
    else:
        for peer in found:
            click.echo(peer)
