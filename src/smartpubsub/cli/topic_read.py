"""smartpubsub topic subscribe and history."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import click

from smartpubsub.cli.node_options import data_option, print_json_line, running_node
from smartpubsub.cli.output import json_option
from smartpubsub.cli.sub import json_payload, printable, tell_dropped, tell_number
from smartpubsub.cli.topic_rules import topic_argument
from smartpubsub.protocols.blocks import CidError, cid_from_text, cid_text


def _event_or_time(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> str | None:
    if text is None:
        return None
    try:
        datetime.fromisoformat(text)
    except ValueError:
        try:
            return cid_text(cid_from_text(text))
        except CidError:
            raise click.BadParameter(
                f"{text!r} is neither an event's content id, which topic history --json prints,"
                " nor a time such as 2026-01-31T12:00Z"
            ) from None
    return text


_since_option = click.option(
    "--since",
    callback=_event_or_time,
    metavar="EVENT|TIME",
    help="What came after an event, by its content id, or since a time such as 2026-01-31T12:00Z.",
)
_last_option = click.option("--last", type=click.IntRange(min=1), help="The last so many events.")


@click.command()
@topic_argument
@_since_option
@_last_option
@click.option("--limit", type=click.IntRange(min=0), help="End after so many events.")
@click.option("--keep", is_flag=True, help="Leave the subscription when the command ends.")
@data_option
@json_option
def subscribe(
    topic: str,
    since: str | None,
    last: int | None,
    limit: int | None,
    keep: bool,
    data: str | None,
    as_json: bool,
) -> None:
    """Print a topic's events as they come.

    With --since or --last those of the past come first, and each event comes once. With --json each
    event is a document in a line of its own. The subscription ends with the command, unless it is
    to be kept: then its number is printed first, it goes on when the node is started again, its
    events wait for the next subscribe --keep to the same topic, which begins with them, and unsub
    ends it.

    \b
    Examples:
      smartpubsub topic subscribe bafyrei…
      smartpubsub topic subscribe bafyrei… --last 10 --limit 20 --json
      smartpubsub topic subscribe bafyrei… --keep
    """
    fields = _fields(topic, since, last)
    if limit is not None:
        fields["limit"] = limit
    with running_node(data) as node:
        number, events = node.stream("topic-subscribe", {**fields, "keep": keep})
        if keep:
            tell_number(number, as_json)
        click.echo(f"subscribed to {topic}", err=True)
        if keep:
            with node.taking(number, events) as taken:
                _show_all(taken, as_json)
        else:
            _show_all(events, as_json)


@click.command()
@topic_argument
@_since_option
@_last_option
@data_option
@json_option
def history(
    topic: str, since: str | None, last: int | None, data: str | None, as_json: bool
) -> None:
    """Print a topic's events so far.

    With --json each event is a document in a line of its own.

    \b
    Examples:
      smartpubsub topic history bafyrei…
      smartpubsub topic history bafyrei… --since 2026-01-31 --json
    """
    with running_node(data) as node:
        _, events = node.stream("topic-history", _fields(topic, since, last))
        count = _show_all(events, as_json)
    if not count:
        since_or_all = "" if since is None else f" since {since}"
        click.echo(f"the topic has no events{since_or_all}", err=True)


def _fields(topic: str, since: str | None, last: int | None) -> dict[str, object]:
    if since is not None and last is not None:
        raise click.UsageError("--since and --last say two things; give one of them")
    fields: dict[str, object] = {"topic": topic}
    if since is not None:
        fields["since"] = since
    if last is not None:
        fields["last"] = last
    return fields


def _show_all(events: Iterable[dict[str, Any]], as_json: bool) -> int:
    """Print events as they come; how many there were."""
    dropped = count = 0
    for line in events:
        count += 1
        if line["dropped"] > dropped:
            tell_dropped(line["dropped"] - dropped)
            dropped = line["dropped"]
        event = line["event"]
        payload = base64.b64decode(event.pop("payload"))
        if as_json:
            print_json_line(event | json_payload(payload))
        else:
            click.echo(f"{event['created']}  {event['author'][-8:]}  {printable(payload)}".rstrip())
    return count
