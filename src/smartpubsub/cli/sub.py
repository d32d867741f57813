"""smartpubsub sub."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import click

from smartpubsub.cli.explain import read
from smartpubsub.cli.node.options import attributes_max, data_option, print_json_line, running_node
from smartpubsub.cli.output import counted, json_option
from smartpubsub.cli.past_options import last_option, past_fields, since_option
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import event_id_from_text


@click.command()
@click.argument("predicate_text", metavar="PREDICATE")
@data_option
@click.option("--limit", type=click.IntRange(min=0), help="End after so many events.")
@since_option(event_id_from_text, "id", "sub")
@last_option
@click.option("--keep", is_flag=True, help="Leave the subscription when the command ends.")
@json_option
def sub(
    predicate_text: str,
    data: str | None,
    limit: int | None,
    since: str | None,
    last: int | None,
    keep: bool,
    as_json: bool,
) -> None:
    """Subscribe, and print events as they come.

    With --since or --last those that were published before come first, in the order of their times,
    as far as they are kept; each event comes once. An event's cid is the content id of a block that
    anybody can verify. With --json each event is a document in a line of its own. The subscription
    ends with the command, unless it is to be kept: then its number is printed first, it goes on
    when the node is started again, its events wait for the next sub with the same predicate, up to
    a thousand of them, and only unsub ends it.

    \b
    Examples:
      smartpubsub sub 'portugal/weather/temp[20,30]'
      smartpubsub sub 'surf/price[,20]' --limit 1 --json
      smartpubsub sub 'surf' --keep --limit 0
      smartpubsub sub 'surf' --since 2026-01-31T12:00Z
      smartpubsub sub 'surf/price[,20]' --last 10 --limit 10 --json
    """
    past = past_fields(since, last)
    predicate = read("PREDICATE", predicate_text, Predicate.parse, attributes_max(data))
    with running_node(data) as node:
        begun, events = node.subscribe(str(predicate), keep=keep, limit=limit, past=past)
        if keep:
            tell_number(begun["subscription"], as_json)
        click.echo(f"subscribed to {predicate}", err=True)
        if begun["was_there"] and not keep:
            number = begun["subscription"]
            click.echo(
                f"this is subscription {number}, which was kept; unsub {number} ends it", err=True
            )
        if past:
            tell_history(begun["history"])
        show_all(events, as_json)


def show_all(events: Iterable[dict[str, Any]], as_json: bool) -> None:
    """Print events as they come, and say if some did not."""
    dropped = 0
    for line in events:
        if line["dropped"] > dropped:
            tell_dropped(line["dropped"] - dropped)
            dropped = line["dropped"]
        show(line["event"], as_json)


def tell_history(history: dict[str, Any]) -> None:
    """Say how many events of before there are, and how far back any are kept."""
    if history["kept_since"] is None:
        click.echo("no earlier events of it are kept", err=True)
    else:
        earlier = counted(history["events"], "earlier event")
        click.echo(f"{earlier}; history reaches back to {history['kept_since']}", err=True)
    if not history["is_whole"]:
        click.echo(
            "note: earlier events may be missing, for those who keep them have only just changed;"
            " ask again in a minute",
            err=True,
        )


def tell_dropped(missed: int) -> None:
    """Say that events are not among those that are printed."""
    came = f"{counted(missed, 'event')} came too fast and {'was' if missed == 1 else 'were'}"
    click.echo(f"note: {came} dropped", err=True)


def tell_number(number: int, as_json: bool) -> None:
    """Say by which number a subscription can be ended."""
    if as_json:
        print_json_line({"subscription": number})
    else:
        click.echo(f"subscription {number}")


def show(event: dict[str, Any], as_json: bool) -> None:
    """Print an event."""
    payload = base64.b64decode(event["payload"])
    if as_json:
        shown = {
            name: event[name] for name in ("id", "cid", "created", "publisher", "event", "hops")
        }
        print_json_line(shown | json_payload(payload))
    else:
        click.echo(f"{event['event']}  {printable(payload)}".rstrip())


def json_payload(payload: bytes) -> dict[str, str]:
    """A payload as text, or in base 64 if it is none.

    >>> json_payload("é".encode()), json_payload(bytes([255]))
    ({'payload': 'é'}, {'payload_base64': '/w=='})
    """
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(payload).decode()}


def printable(payload: bytes) -> str:
    r"""A payload in one line that does nothing to a terminal, whoever has written it.

    >>> printable(b"two\nlines"), printable(bytes([27, 255]))
    ('two\\nlines', '\\x1b\\xff')
    """
    text = payload.decode(errors="backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
