"""smartpubsub node info."""

from __future__ import annotations

from typing import Any

import click

from smartpubsub.cli.node_options import data_option, running_node
from smartpubsub.cli.output import json_option, print_json


@click.command()
@data_option
@json_option
def info(data: str | None, as_json: bool) -> None:
    """Say who and where a running node is.

    Tells also what it has subscribed to, with the numbers that unsub takes.

    \b
    Examples:
      smartpubsub node info
      smartpubsub node info --data b --json
    """
    with running_node(data) as node:
        found = node.ask("info")
    if as_json:
        print_json(found)
    else:
        click.echo("\n".join(f"{name:<14}{value}" for name, value in lines(found)))


def lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What is known of a node, under names."""
    return [
        ("peer id", found["peer_id"]),
        *(("address", address) for address in found["addresses"]),
        ("protocol", " ".join(filter(None, (found["protocol"], found["variant"])))),
        ("peers", f"{found['peers']:,}"),
        ("data", found["data"]),
        ("process", f"{found['process']}"),
        ("version", found["version"]),
        *(("subscription", wish_text(wish)) for wish in found["subscriptions"]),
    ]


def wish_text(wish: dict[str, Any]) -> str:
    """A subscription in one line."""
    waiting = "" if wish["is_taken"] else f", {wish['waiting']:,} events waiting"
    return f"{wish['subscription']}  {wish['predicate']}  {wish['state']}{waiting}"
