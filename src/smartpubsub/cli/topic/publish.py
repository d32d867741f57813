"""smartpubsub topic publish."""

from __future__ import annotations

import base64
from pathlib import Path

import click

from smartpubsub.cli.node.options import data_option, running_node
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.cli.pub import failures_as_json, file_option, key_option, payload_of
from smartpubsub.cli.publishing import WAITS
from smartpubsub.cli.topic.rules import topic_argument, topic_id

NONE = "none"


def _events(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> list[str] | None:
    """The events to link to, possibly none; None without the option."""
    if NONE in texts and len(texts) > 1:
        raise click.BadParameter(f"{NONE} excludes other values; give it alone")
    return [topic_id(context, parameter, text) for text in texts if text != NONE] if texts else None


@click.command()
@topic_argument
@click.argument("payload", metavar="[DATA|-]", default="")
@click.option(
    "--parent",
    "parents",
    metavar=f"EVENT|{NONE}",
    multiple=True,
    callback=_events,
    help="An event to link to, in a topic with --linking custom; may be repeated.",
)
@click.option(
    "--wait",
    type=click.Choice(WAITS[:2]),
    default="rendezvous",
    show_default=True,
    help="Wait until the event is stored, or do not wait.",
)
@file_option
@key_option
@data_option
@json_option
def publish(
    topic: str,
    payload: str,
    parents: list[str] | None,
    wait: str,
    file: Path | None,
    key: str | None,
    data: str | None,
    as_json: bool,
) -> None:
    """Publish an event in a topic.

    DATA is the payload; - reads it from standard input. If the node may not publish in the topic
    but may ask a publisher, it does. Prints the event's content id when the event is stored; topic
    history shows the same id. With --wait nothing the id may not be known yet.

    To retry safely, give a --key, as in pub; the keys of each topic are its own. Failures and
    --json are as in pub.

    \b
    Examples:
      smartpubsub topic publish bafyrei… 'hello'
      echo hello | smartpubsub topic publish bafyrei… - --json
      smartpubsub topic publish bafyrei… 'an answer' --parent bafyrei…
      smartpubsub topic publish bafyrei… 'two shirts' --key order-17
    """
    fields: dict[str, object] = {"topic": topic, "wait": wait}
    fields["payload"] = base64.b64encode(payload_of(payload, file)).decode()
    if parents is not None:
        fields["parents"] = parents
    if key is not None:
        fields["key"] = key
    with failures_as_json(as_json), running_node(data) as node:
        done = node.ask("topic-publish", **fields)
    if as_json:
        print_json(done)
    elif done["id"] is None:
        click.echo("on its way; its content id is not known yet", err=True)
    else:
        click.echo(done["id"])
