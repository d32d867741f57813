"""smartpubsub unsub."""

from __future__ import annotations

import click

from smartpubsub.cli.node.options import data_option, running_node
from smartpubsub.cli.output import json_option, print_json

DIGITS_MAX = 19


def _number(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX:
        return int(text)
    raise click.BadParameter(
        f"{text!r} is not the number of a subscription; sub --keep prints it, such as 7, and"
        " node info lists all"
    )


@click.command()
@click.argument("number", metavar="ID", callback=_number)
@data_option
@json_option
def unsub(number: int, data: str | None, as_json: bool) -> None:
    """End a subscription.

    ID is the number that sub --keep or topic subscribe --keep prints; node info lists all. Events
    that wait for the subscription's reader are removed. A command that reads the subscription ends.

    \b
    Examples:
      smartpubsub unsub 7
      smartpubsub unsub 7 --data b --json
    """
    with running_node(data) as node:
        ended = node.ask("unsubscribe", subscription=number)
    if as_json:
        print_json(ended)
