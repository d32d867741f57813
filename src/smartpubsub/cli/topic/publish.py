"""smartpubsub topic publish."""

from __future__ import annotations

import base64

import click

from smartpubsub.cli.node.options import data_option, running_node
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.cli.pub import WAITS, payload_of
from smartpubsub.cli.topic.rules import topic_argument, topic_id

NONE = "none"


def _events(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> list[str] | None:
    """Events to link to, which may be none; nothing if nothing is said."""
    if NONE in texts and len(texts) > 1:
        raise click.BadParameter(f"{NONE} leaves nothing to add; give it alone")
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
    help="What to link to, as often as wanted, in a topic made with --linking custom.",
)
@click.option(
    "--wait",
    type=click.Choice(WAITS[:2]),
    default="rendezvous",
    show_default=True,
    help="Until the event is stored, or for nothing.",
)
@data_option
@json_option
def publish(
    topic: str, payload: str, parents: list[str] | None, wait: str, data: str | None, as_json: bool
) -> None:
    """Publish in a topic.

    DATA is what the event says; with - it is read from standard input. Who may not publish in the
    topic but may ask, asks. Prints the event's content id when it is stored, by which topic history
    shows it; with --wait nothing it may not be known yet.

    \b
    Examples:
      smartpubsub topic publish bafyrei… 'hello'
      echo hello | smartpubsub topic publish bafyrei… - --json
      smartpubsub topic publish bafyrei… 'an answer' --parent bafyrei…
    """
    fields: dict[str, object] = {"topic": topic, "wait": wait}
    fields["payload"] = base64.b64encode(payload_of(payload)).decode()
    if parents is not None:
        fields["parents"] = parents
    with running_node(data) as node:
        done = node.ask("topic-publish", **fields)
    if as_json:
        print_json(done)
    elif done["id"] is None:
        click.echo("on its way; its content id is not known yet", err=True)
    else:
        click.echo(done["id"])
