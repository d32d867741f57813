"""smartpubsub pub."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from smartpubsub.cli.explain import read
from smartpubsub.cli.node.options import attributes_max, data_option, running_node
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.errors import LostNodeError, PublishError
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import PAYLOAD_BYTES_MAX, too_long

STANDARD_INPUT = "-"
WAITS = ("nothing", "rendezvous", "all")

key_option = click.option(
    "--key",
    metavar="TEXT",
    help="Publish once by this key: the same key is the same event, also after a restart.",
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
@key_option
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
    key: str | None,
    replicas_min: int | None,
    as_json: bool,
) -> None:
    """Publish an event.

    EVENT is the event's predicate, and DATA its payload; - reads the payload from standard input.
    Prints the event's id; with --json the receipt, which has the signatures of the event's
    replicas. Where fewer nodes are up than should hold an event, those that are up hold it, and a
    note says how many. If the acknowledgement does not come in time, the error has the id, the node
    goes on trying, and smartpubsub event tells what became of the event. With --json a failure
    prints a document with the event's "id" (null if there is none), the "reason" and the "state".

    To retry safely, give a --key: publishing by the same key again publishes no second event, and
    prints the same id. The node remembers keys for seven days; node run --limit changes that.

    \b
    Examples:
      smartpubsub pub 'portugal/weather/temp=24' 'sunny'
      smartpubsub pub 'surf/price=15' - --wait all --json < offer.html
      smartpubsub pub 'orders/total=40' 'two shirts' --key order-17
    """
    event = read("EVENT", event_text, Predicate.parse, attributes_max(data))
    fields: dict[str, object] = {"event": str(event), "wait": wait}
    if key is not None:
        fields["key"] = key
    if replicas_min is not None:
        fields["replicas_min"] = replicas_min
    with failures_as_json(as_json), running_node(data) as node:
        payload = base64.b64encode(payload_of(payload_text)).decode()
        receipt = node.ask("publish", payload=payload, **fields)
    if as_json:
        print_json(receipt)
    else:
        click.echo(receipt["id"])
        replicas, wanted = receipt["replicas"], receipt["replicas_wanted"]
        if replicas is not None and replicas < wanted:
            click.echo(f"note: replicas={replicas} of {wanted}: no more nodes are up", err=True)


@contextmanager
def failures_as_json(as_json: bool) -> Iterator[None]:
    """Print a publish that fails as a JSON document, if that is wanted."""
    try:
        yield
    except SmartPubSubError as error:
        if as_json:
            print_json(_failure(error))
        raise


def _failure(error: SmartPubSubError) -> dict[str, str | None]:
    if isinstance(error, PublishError):
        id, state = error.id, error.state
    else:
        id, state = None, "unknown" if isinstance(error, LostNodeError) else "unpublished"
    return {"id": id, "reason": str(error), "state": state}


def payload_of(text: str) -> bytes:
    """Read a payload, and check its size."""
    if text == STANDARD_INPUT:
        payload = sys.stdin.buffer.read(PAYLOAD_BYTES_MAX + 1)
    else:
        payload = os.fsencode(text)
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise click.BadParameter(too_long(), param_hint="DATA")
    return payload
