"""smartpubsub pub."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from smartpubsub.cli.event import event_id
from smartpubsub.cli.explain import read
from smartpubsub.cli.node.options import ATTRIBUTES_MAX, data_option
from smartpubsub.cli.output import json_option
from smartpubsub.cli.publishing import WAITS, failure, print_failure, publish
from smartpubsub.client.blocking_socket import folder_of
from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.api.event_records import checked_key
from smartpubsub.node.errors import LimitError
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import PAYLOAD_BYTES_MAX, too_long

STANDARD_INPUT = "-"


def _checked_key(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> str | None:
    try:
        return None if text is None else checked_key(text)
    except LimitError as error:
        raise click.BadParameter(str(error)) from None


key_option = click.option(
    "--key",
    metavar="TEXT",
    callback=_checked_key,
    help="Publish once by this key: the same key is the same event, also after a restart.",
)


file_option = click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file that has the payload, instead of DATA.",
)


@click.command()
@click.argument("event_text", metavar="EVENT")
@click.argument("payload_text", metavar="[DATA|-]", default="")
@data_option
@click.option(
    "--wait",
    type=click.Choice(WAITS),
    default=WAITS[1],
    show_default=True,
    help="Wait until the rendezvous has the event, or until all subscribers have it.",
)
@file_option
@key_option
@click.option(
    "--id",
    metavar="ID",
    callback=event_id,
    help="Publish the event with this id again, whose publish failed: no second event.",
)
@click.option(
    "--replicas-min",
    type=click.IntRange(min=1),
    metavar="N",
    help="Fail unless at least N nodes hold the event.  [default: as many as are up]",
)
@json_option
def pub(
    event_text: str,
    payload_text: str,
    data: str | None,
    wait: str,
    file: Path | None,
    key: str | None,
    id: str | None,
    replicas_min: int | None,
    as_json: bool,
) -> None:
    """Publish an event.

    EVENT is the event's predicate, and DATA its payload; - reads the payload from standard input.
    Prints the event's id; with --json the receipt, which has the signatures of the event's
    replicas. If fewer nodes are up than should hold an event, all of them hold it, and a note says
    how many. If the acknowledgement does not come in time, the error has the id, the node goes on
    trying, and smartpubsub event shows the state of the event. With --json a failure prints a
    document with the event's "id" (null if there is none), the "reason" and the "state".

    To retry safely, give a --key: publishing by the same key again publishes no second event, and
    prints the same id. The node remembers keys for seven days; node run --limit changes that. To
    repeat a publish without a key that was not acknowledged in time, give the --id from its error.

    \b
    Examples:
      smartpubsub pub 'portugal/weather/temp=24' 'sunny'
      smartpubsub pub 'surf/price=15' - --wait all --json < offer.html
      smartpubsub pub 'surf/price=15' --file offer.html
      smartpubsub pub 'orders/total=40' 'two shirts' --key order-17
      smartpubsub pub 'surf/price=15' 'clean waves' --id 9f86d081884c7d65-1767225600-3
    """
    if key is not None and id is not None:
        raise click.UsageError("--key and --id both name the event; give one of them")
    event = read("EVENT", event_text, Predicate.parse, ATTRIBUTES_MAX)
    fields: dict[str, object] = {"event": str(event), "wait": wait}
    if key is not None:
        fields["key"] = key
    if id is not None:
        fields["again"] = id
    if replicas_min is not None:
        fields["replicas_min"] = replicas_min
    with failures_as_json(as_json):
        publish(folder_of(data), fields, payload_of(payload_text, file), as_json)


@contextmanager
def failures_as_json(as_json: bool) -> Iterator[None]:
    """Print a failed publish as a JSON document if `as_json` is set."""
    try:
        yield
    except SmartPubSubError as error:
        if as_json:
            print_failure(failure(error))
            error.is_printed = True
        raise


def payload_of(text: str, file: Path | None = None) -> bytes:
    """Read a payload from an argument, a file or standard input, and check its size."""
    if file is not None and text:
        raise click.UsageError("DATA and --file are two payloads; give one of them")
    if file is not None:
        try:
            with file.open("rb") as opened:
                payload = opened.read(PAYLOAD_BYTES_MAX + 1)
        except OSError as error:
            problem = f"{file}: {error.strerror}"
            raise click.BadParameter(problem, param_hint="--file") from None
    elif text == STANDARD_INPUT:
        payload = sys.stdin.buffer.read(PAYLOAD_BYTES_MAX + 1)
    else:
        payload = os.fsencode(text)
    if len(payload) > PAYLOAD_BYTES_MAX:
        given = "DATA" if file is None else f"--file {file}"
        raise click.BadParameter(too_long(), param_hint=given)
    return payload
