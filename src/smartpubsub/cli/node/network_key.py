"""smartpubsub node network-key."""

from __future__ import annotations

from pathlib import Path

import click

from smartpubsub.cli.output import json_option, print_json
from smartpubsub.node.network_key import NetworkKey


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def network_key(file: Path, as_json: bool) -> None:
    """Make the key of a private network.

    Writes a new secret key to FILE. Copy it to all nodes of the network over a safe path, and run
    each with --network-key FILE: nodes without the key cannot connect to them. The format is that
    of Kubo's swarm.key.

    \b
    Examples:
      smartpubsub node network-key swarm.key
      smartpubsub node run --network-key swarm.key
    """
    NetworkKey.new().write(file)
    if as_json:
        print_json({"network_key": str(file)})
    else:
        click.echo(file)
