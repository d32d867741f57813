"""smartpubsub topic subscribe and history."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import click

from smartpubsub.cli.node.options import data_option, print_json_line, running_node
from smartpubsub.cli.output import json_option
from smartpubsub.cli.past_options import last_option, past_fields, since_option
from smartpubsub.cli.sub import (
    json_payload,
    overflow_option,
    print_number,
    printable,
    report_dropped,
)
from smartpubsub.cli.topic.gaps import report_gaps
from smartpubsub.cli.topic.rules import topic_argument
from smartpubsub.protocols.blocks import cid_from_text

_since_option = since_option(cid_from_text, "content id")


@click.command()
@topic_argument
@_since_option
@last_option
@click.option("--limit", type=click.IntRange(min=0), help="End after N events.")
@click.option("--keep", is_flag=True, help="Keep the subscription when the command ends.")
@overflow_option
@data_option
@json_option
def subscribe(
    topic: str,
    since: str | None,
    last: int | None,
    limit: int | None,
    keep: bool,
    overflow: str,
    data: str | None,
    as_json: bool,
) -> None:
    """Print a topic's events as they arrive.

    With --since or --last, past events come first, each event once, and missing ones are reported.
    With --json, each event is one JSON document on its own line; a document with "gaps", the events
    known to be missing, comes before them. The subscription ends with the command, except with
    --keep: then its number is printed first, it survives a restart of the node, its events are
    stored for the next subscribe --keep to the same topic, which prints them first, and unsub ends
    it. If output is not read, up to 1,000 events wait in the node; --overflow says what happens
    then.

    \b
    Examples:
      smartpubsub topic subscribe bafyrei…
      smartpubsub topic subscribe bafyrei… --last 10 --limit 20 --json
      smartpubsub topic subscribe bafyrei… --keep
    """
    fields = {"topic": topic, "overflow": overflow, **past_fields(since, last)}
    if limit is not None:
        fields["limit"] = limit
    with running_node(data) as node:
        begun, events = node.stream("topic-subscribe", {**fields, "keep": keep})
        number = begun["subscription"]
        if keep:
            print_number(number, as_json)
        click.echo(f"subscribed to {topic}", err=True)
        _show_gaps(begun["gaps"], as_json)
        if keep:
            with node.taking(number, events) as taken:
                _show_all(taken, as_json)
        else:
            _show_all(events, as_json)


@click.command()
@topic_argument
@_since_option
@last_option
@data_option
@json_option
def history(
    topic: str, since: str | None, last: int | None, data: str | None, as_json: bool
) -> None:
    """Print a topic's events so far.

    Collects them from all nodes that keep the topic, and reports events that were not found or are
    no longer kept. With --json, each event is one JSON document on its own line; a document with
    "gaps", the events known to be missing, comes before them.

    \b
    Examples:
      smartpubsub topic history bafyrei…
      smartpubsub topic history bafyrei… --since 2026-01-31 --json
    """
    with running_node(data) as node:
        begun, events = node.stream("topic-history", {"topic": topic, **past_fields(since, last)})
        _show_gaps(begun["gaps"], as_json)
        count = _show_all(events, as_json)
    if not count:
        since_or_all = "" if since is None else f" since {since}"
        click.echo(f"the topic has no events{since_or_all}", err=True)


def _show_gaps(gaps: dict[str, Any] | None, as_json: bool) -> None:
    """Report missing parts of the history; with --json also as a document."""
    report_gaps(gaps)
    if as_json and gaps is not None and (gaps["missing"] or gaps["let_go"]):
        print_json_line({"gaps": gaps})


def _show_all(events: Iterable[dict[str, Any]], as_json: bool) -> int:
    """Print events as they arrive; return their number."""
    dropped = count = 0
    for line in events:
        count += 1
        if line["dropped"] > dropped:
            report_dropped(line["dropped"] - dropped)
            dropped = line["dropped"]
        event = line["event"]
        payload = base64.b64decode(event.pop("payload"))
        if as_json:
            print_json_line(event | json_payload(payload))
        else:
            click.echo(f"{event['created']}  {event['author'][-8:]}  {printable(payload)}".rstrip())
    return count
