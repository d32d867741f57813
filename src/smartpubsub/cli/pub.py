"""smartpubsub pub."""

from __future__ import annotations

import base64
import os
import sys

import click

from smartpubsub.cli.explain import read
from smartpubsub.cli.node.options import attributes_max, data_option, running_node
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import PAYLOAD_BYTES_MAX, too_long

STANDARD_INPUT = "-"
WAITS = ("nothing", "rendezvous", "all")


@click.command()
@click.argument("event_text", metavar="EVENT")
@click.argument("payload_text", metavar="[DATA|-]", default="")
@data_option
@click.option(
    "--wait",
    type=click.Choice(WAITS),
    default=WAITS[1],
    show_default=True,
    help="Until the network cares for the event, or until all who want it have it.",
)
@json_option
def pub(event_text: str, payload_text: str, data: str | None, wait: str, as_json: bool) -> None:
    """Publish an event.

    EVENT says what it is, and DATA is what it carries; - reads that from standard input. Prints the
    event's id; with --json the receipt, with the signatures of those who keep the event.

    \b
    Examples:
      smartpubsub pub 'portugal/weather/temp=24' 'sunny'
      smartpubsub pub 'surf/price=15' - --wait all --json < offer.html
    """
    event = read("EVENT", event_text, Predicate.parse, attributes_max(data))
    with running_node(data) as node:
        payload = base64.b64encode(payload_of(payload_text)).decode()
        receipt = node.ask("publish", event=str(event), payload=payload, wait=wait)
    if as_json:
        print_json(receipt)
    else:
        click.echo(receipt["id"])


def payload_of(text: str) -> bytes:
    """What an event is to carry, of which there may not be too much."""
    if text == STANDARD_INPUT:
        payload = sys.stdin.buffer.read(PAYLOAD_BYTES_MAX + 1)
    else:
        payload = os.fsencode(text)
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise click.BadParameter(too_long(), param_hint="DATA")
    return payload
