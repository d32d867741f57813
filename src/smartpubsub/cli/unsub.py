"""smartpubsub unsub."""

from __future__ import annotations

import click

from smartpubsub.cli.node_options import data_option, running_node
from smartpubsub.cli.output import json_option, print_json


@click.command()
@click.argument("number", metavar="ID", type=click.IntRange(min=0))
@data_option
@json_option
def unsub(number: int, data: str | None, as_json: bool) -> None:
    """End a subscription.

    ID is the number that sub --keep has printed; node info lists them. A sub that is still waiting
    for its events ends too.

    \b
    Examples:
      smartpubsub unsub 7
      smartpubsub unsub 7 --data b --json
    """
    with running_node(data) as node:
        ended = node.ask("unsubscribe", subscription=number)
    if as_json:
        print_json(ended)
