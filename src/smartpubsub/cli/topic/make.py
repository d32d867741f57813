"""smartpubsub topic create and update."""

from __future__ import annotations

from typing import Any

import click

from smartpubsub.cli.node.options import data_option, running_node
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.cli.topic.rules import rule_fields, rule_options, topic_argument, topic_name


@click.command()
@click.argument("name", callback=topic_name)
@rule_options
@data_option
@json_option
def create(
    name: str,
    ordered: bool | None,
    publishers: tuple[str, ...],
    requesters: tuple[str, ...],
    linking: str | None,
    subtopics: dict[str, str],
    data: str | None,
    as_json: bool,
) -> None:
    """Create a topic.

    Prints its content id, by which other nodes find it from then on. Without options any node may
    publish in it. With --allow only the named nodes may, and the nodes named by --request can ask
    them to. node info prints the id of a node.

    \b
    Examples:
      smartpubsub topic create news
      smartpubsub topic create minutes --ordered --json
      smartpubsub topic create board --allow self --allow 12D3KooW… --request anyone
      smartpubsub topic create sports --sub-topic surf=bafyrei… --linking custom
    """
    fields = rule_fields(ordered, publishers, requesters, linking, subtopics)
    with running_node(data) as node:
        _print_version(node.ask("topic-create", name=name, **fields), as_json)


@click.command()
@topic_argument
@rule_options
@click.option(
    "--no-sub-topic",
    "removed",
    metavar="NAME",
    multiple=True,
    help="A link to remove; may be repeated.",
)
@data_option
@json_option
def update(
    topic: str,
    ordered: bool | None,
    publishers: tuple[str, ...],
    requesters: tuple[str, ...],
    linking: str | None,
    subtopics: dict[str, str],
    removed: tuple[str, ...],
    data: str | None,
    as_json: bool,
) -> None:
    """Create a new version of a topic.

    Rules without an option stay unchanged. Only the topic's author can do this. Prints the content
    id of the new version. Subscribers switch to it, and the old content id keeps leading to it.

    \b
    Examples:
      smartpubsub topic update bafyrei… --allow self --request nobody
      smartpubsub topic update minutes --unordered --allow anyone
      smartpubsub topic update bafyrei… --sub-topic surf=bafyrei… --no-sub-topic golf --json
    """
    fields = rule_fields(ordered, publishers, requesters, linking, subtopics)
    both = [name for name in removed if name in subtopics]
    if both:
        raise click.UsageError(f"the sub-topic {both[0]!r} is both set and removed; do one")
    links: dict[str, str | None] = {**subtopics, **dict.fromkeys(removed)}
    if links:
        fields["subtopics"] = links
    if not fields:
        raise click.UsageError("nothing to change; give an option, for example --allow anyone")
    with running_node(data) as node:
        _print_version(node.ask("topic-update", topic=topic, **fields), as_json)


def _print_version(made: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(made)
    else:
        click.echo(made["topic"])
    if not made["may_publish"] and not made["may_request"]:
        click.echo(
            "note: this node itself cannot publish in it; --allow self would permit that", err=True
        )
