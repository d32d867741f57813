"""smartpubsub sub."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click

from smartpubsub.cli.explain import read
from smartpubsub.cli.node.options import ATTRIBUTES_MAX, data_option, print_json_line, running_node
from smartpubsub.cli.output import counted, json_option
from smartpubsub.cli.past_options import last_option, past_fields, since_option
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import event_id_from_text

OVERFLOWS = ("drop-oldest", "error", "block")
overflow_option = click.option(
    "--overflow",
    type=click.Choice(OVERFLOWS),
    default=OVERFLOWS[0],
    show_default=True,
    help="If events come faster than they are printed: drop them, fail, or let them wait.",
)
_SHOWN = ("id", "cid", "created", "publisher", "event", "hops", "dropped_before")


@click.command()
@click.argument("predicate_text", metavar="PREDICATE")
@data_option
@click.option("--limit", type=click.IntRange(min=0), help="End after so many events.")
@since_option(event_id_from_text, "id")
@last_option
@click.option("--keep", is_flag=True, help="Keep the subscription when the command ends.")
@overflow_option
@click.option("--where", is_flag=True, help="Read PREDICATE as an SQL-like condition.")
@click.option("--raw", is_flag=True, help="Print payloads alone, byte for byte, one after another.")
@click.option(
    "--exec",
    "command",
    metavar="COMMAND",
    help="Run a shell command for each event, with the payload as its standard input.",
)
@json_option
def sub(
    predicate_text: str,
    data: str | None,
    limit: int | None,
    since: str | None,
    last: int | None,
    keep: bool,
    overflow: str,
    where: bool,
    raw: bool,
    command: str | None,
    as_json: bool,
) -> None:
    """Subscribe, and print events as they come.

    With --since or --last, history comes first, in order of time, as far as it is kept; each event
    comes once. An event's cid is the content id of a block that any node can verify. With --json
    each event is a JSON document on its own line.

    The subscription ends with the command, unless it has --keep. Then the command prints the
    subscription's number first, and the subscription goes on, also when the node is started again.
    Its events wait on disk until the next sub --keep with the same predicate prints them, which
    acknowledges them; they survive a crash of the node. A sub without --keep acknowledges none of
    them. unsub ends it. The node keeps up to 100,000 events, 64 MiB and seven days of them; node
    run --limit changes that.

    With --exec, the variables EVENT, EVENT_ID and EVENT_PUBLISHER have the event. The next event
    waits until the command has ended; a command that fails ends sub with its exit code, and with
    --keep the event comes again.

    If output is not read, up to 1,000 events wait in the node; --overflow says what happens then.

    \b
    Examples:
      smartpubsub sub 'portugal/weather/temp[20,30]'
      smartpubsub sub 'surf/price[,20]' --limit 1 --json
      smartpubsub sub 'surf' --keep --limit 0
      smartpubsub sub 'surf' --since 2026-01-31T12:00Z
      smartpubsub sub --where 'surf and price <= 20' --since 1h
      smartpubsub sub 'surf' --raw --limit 1 > offer.html
      smartpubsub sub 'orders' --keep --exec 'process-order "$EVENT_ID"'
      smartpubsub sub 'surf/price[,20]' --last 10 --limit 10 --json
    """
    past = past_fields(since, last)
    if command is not None and not command.strip():
        raise click.BadParameter("the command is empty", param_hint="--exec")
    if raw + as_json + (command is not None) > 1:
        raise click.UsageError("--raw, --json and --exec exclude each other; give one of them")
    reader = Predicate.where if where else Predicate.parse
    predicate = read("PREDICATE", predicate_text, reader, ATTRIBUTES_MAX)
    show_event = _shower(as_json=as_json, raw=raw, command=command)
    with running_node(data) as node:
        begun, events = node.subscribe(
            str(predicate), keep=keep, limit=limit, past=past, overflow=overflow
        )
        number = begun["subscription"]
        subscriptions = node.ask("subscriptions")
        if keep:
            print_number(number, as_json)
        click.echo(f"subscribed to {predicate}; waiting for events", err=True)
        report_kept(begun, subscriptions)
        if past:
            report_history(begun["history"])
        if begun["is_kept"]:
            with node.taking(number, events) as taken:
                show_all(taken, show_event)
        else:
            show_all(events, show_event)


Show = Callable[[dict[str, Any]], None]


def _shower(*, as_json: bool, raw: bool, command: str | None) -> Show:
    def show_one(event: dict[str, Any]) -> None:
        if command is not None:
            _execute(command, event)
        elif raw:
            _show_raw(event)
        else:
            show(event, as_json)

    return show_one


def _show_raw(event: dict[str, Any]) -> None:
    sys.stdout.buffer.write(base64.b64decode(event["payload"]))
    sys.stdout.buffer.flush()


def _execute(command: str, event: dict[str, Any]) -> None:
    known = {
        "EVENT": event["event"],
        "EVENT_ID": event["id"],
        "EVENT_PUBLISHER": event["publisher"],
    }
    payload = base64.b64decode(event["payload"])
    done = subprocess.run(
        command, shell=True, input=payload, env={**os.environ, **known}, check=False
    )
    if done.returncode != 0:
        click.echo(f"smartpubsub: the command ended with {done.returncode}: {command}", err=True)
        raise click.exceptions.Exit(done.returncode if done.returncode > 0 else 1)


def show_all(events: Iterable[dict[str, Any]], show_event: Show) -> None:
    """Show events as they come, and report dropped ones."""
    for line in events:
        if line["event"]["dropped_before"]:
            report_dropped(line["event"]["dropped_before"])
        show_event(line["event"])


def report_kept(begun: dict[str, Any], subscriptions: list[dict[str, Any]]) -> None:
    """Report whether this continues a kept subscription, and other kept ones with its predicate."""
    by_number = {info["subscription"]: info for info in subscriptions}
    number, own = begun["subscription"], by_number.pop(begun["subscription"], None)
    if own is None:
        return
    if begun["was_there"] and begun["is_kept"]:
        click.echo(
            f"this continues subscription {number}, which was kept; events that wait there:"
            f" {own['waiting']:,}; printing an event acknowledges it; unsub {number} ends it",
            err=True,
        )
    for other, info in by_number.items():
        if info["is_kept"] and info["predicate"] == own["predicate"]:
            waits = (
                " for another reader, so each event waits twice"
                if begun["is_kept"]
                else ", and its events wait for a sub --keep"
            )
            click.echo(
                f"note: subscription {other} keeps the same predicate{waits};"
                f" unsub {other} ends it",
                err=True,
            )


def report_history(history: dict[str, Any]) -> None:
    """Report the number of events of history, and since when history is kept."""
    if history["kept_since"] is None:
        click.echo("no earlier events of it are kept", err=True)
    else:
        earlier = counted(history["events"], "earlier event")
        click.echo(f"{earlier}; history reaches back to {history['kept_since']}", err=True)
    if not history["is_whole"]:
        click.echo(
            "note: earlier events may be missing, because their replicas have just changed;"
            " ask again in a minute",
            err=True,
        )


def report_dropped(missed: int) -> None:
    """Report dropped events."""
    came = f"{counted(missed, 'event')} came too fast and {'was' if missed == 1 else 'were'}"
    click.echo(f"note: {came} dropped", err=True)


def print_number(number: int, as_json: bool) -> None:
    """Print the number that unsub takes."""
    if as_json:
        print_json_line({"subscription": number})
    else:
        click.echo(f"subscription {number}")


def show(event: dict[str, Any], as_json: bool) -> None:
    """Print an event."""
    payload = base64.b64decode(event["payload"])
    if as_json:
        shown = {name: event[name] for name in _SHOWN}
        print_json_line(shown | json_payload(payload))
    else:
        click.echo(f"{event['event']}  {printable(payload)}".rstrip())


def json_payload(payload: bytes) -> dict[str, str]:
    """Convert a payload to text, or to base 64 if it is not UTF-8.

    >>> json_payload("é".encode()), json_payload(bytes([255]))
    ({'payload': 'é'}, {'payload_base64': '/w=='})
    """
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(payload).decode()}


def printable(payload: bytes) -> str:
    r"""Convert a payload to one line without control characters.

    >>> printable(b"two\nlines"), printable(bytes([27, 255]))
    ('two\\nlines', '\\x1b\\xff')
    """
    text = payload.decode(errors="backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
