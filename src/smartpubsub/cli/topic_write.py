"""smartpubsub topic create and publish."""

from __future__ import annotations

import base64

import click

from smartpubsub.cli.node_options import data_option, running_node
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.cli.pub import WAITS, payload_of
from smartpubsub.protocols.pulsarcast.blocks import CidError, cid_from_text, cid_text
from smartpubsub.protocols.pulsarcast.topics import NAME_CHARACTERS_MAX


def topic_id(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    """A topic's content id, or a complaint about what is none."""
    try:
        return cid_text(cid_from_text(text))
    except CidError as error:
        raise click.BadParameter(str(error)) from None


def _topic_name(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    if not 1 <= len(text) <= NAME_CHARACTERS_MAX:
        raise click.BadParameter(f"a topic's name has 1 to {NAME_CHARACTERS_MAX:,} characters")
    return text


def _events(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(topic_id(context, parameter, text) for text in texts)


topic_argument = click.argument("topic", metavar="TOPIC", callback=topic_id)


@click.command()
@click.argument("name", callback=_topic_name)
@click.option(
    "--ordered",
    is_flag=True,
    help="Give all readers one order: this node publishes, for whoever asks it to.",
)
@data_option
@json_option
def create(name: str, ordered: bool, data: str | None, as_json: bool) -> None:
    """Make a topic.

    Prints its content id, by which others find it. It can be found when this is done.

    \b
    Examples:
      smartpubsub topic create news
      smartpubsub topic create minutes --ordered --json
    """
    with running_node(data) as node:
        made = node.ask("topic-create", name=name, ordered=ordered)
    if as_json:
        print_json(made)
    else:
        click.echo(made["topic"])


@click.command()
@topic_argument
@click.argument("payload", metavar="[DATA|-]", default="")
@click.option(
    "--parent",
    "parents",
    metavar="EVENT",
    multiple=True,
    callback=_events,
    help="What to link to, in a CUSTOM topic.",
)
@click.option(
    "--wait",
    type=click.Choice(WAITS),
    default="rendezvous",
    show_default=True,
    help="Until the event is stored, or for nothing.",
)
@data_option
@json_option
def publish(
    topic: str, payload: str, parents: tuple[str, ...], wait: str, data: str | None, as_json: bool
) -> None:
    """Publish in a topic.

    DATA is what the event says; with - it is read from standard input. Who may not publish in the
    topic but may ask, asks. Prints the event's content id when it is stored, by which topic history
    shows it; with --wait nothing it may not be known yet.

    \b
    Examples:
      smartpubsub topic publish bafyrei… 'hello'
      echo hello | smartpubsub topic publish bafyrei… - --json
    """
    fields: dict[str, object] = {"topic": topic, "wait": wait}
    fields["payload"] = base64.b64encode(payload_of(payload)).decode()
    if parents:
        fields["parents"] = [*parents]
    with running_node(data) as node:
        done = node.ask("topic-publish", **fields)
    if as_json:
        print_json(done)
    else:
        click.echo(f"published {done['id'] or 'an event whose content id is not known yet'}")
