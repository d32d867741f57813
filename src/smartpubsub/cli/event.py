"""smartpubsub event."""

from __future__ import annotations

from typing import Any

import click

from smartpubsub.cli.node.options import data_option, running_node
from smartpubsub.cli.output import counted, json_option, print_json
from smartpubsub.errors import SmartPubSubError
from smartpubsub.protocols.publication import event_id_from_text

_STATES = {
    "pending": "this node has published it, and the network has not acknowledged it yet",
    "acknowledged": "the network has it",
    "confirmed": "all subscribers have it",
    "refused": "the network has refused it",
    "unknown": "this node has not published it, or does not remember it",
}


def event_id(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    """Check that a parameter is the id of an event."""
    try:
        if text is not None:
            event_id_from_text(text)
    except SmartPubSubError as error:
        raise click.BadParameter(str(error)) from None
    return text


@click.command()
@click.argument("id", metavar="ID", callback=event_id)
@data_option
@json_option
def event(id: str, data: str | None, as_json: bool) -> None:
    """Show the state of an event.

    ID is what pub prints, also in the error of a publish that timed out. The node knows the state
    of the events that it has published since it was started, the last 100 and those of the last
    five minutes; and also from before, of events that were published with --key and of those that
    timed out: pending, acknowledged with its replicas, confirmed by all subscribers, refused, or
    unknown. It also shows the kept subscriptions of this node for which the event still waits. The
    exit code is 1 if the node knows nothing of the event.

    \b
    Examples:
      smartpubsub event 9f86d081884c7d65-1767225600-3
      smartpubsub event 9f86d081884c7d65-1767225600-3 --json
    """
    with running_node(data) as node:
        known = node.ask("event", event=id)
    if as_json:
        print_json(known)
    else:
        _show(known)
    if known["state"] == "unknown" and not known["waiting_in"]:
        raise click.exceptions.Exit(1)


def _show(known: dict[str, Any]) -> None:
    click.echo(f"{known['state']}: {_STATES[known['state']]}")
    if known["reason"]:
        click.echo(f"reason  {known['reason']}")
    if known["key"] is not None:
        click.echo(f"key  {known['key']}")
    for held in known["held"]:
        click.echo(f"replica  {held['attribute']}  {held['peer']}")
    for number in known["waiting_in"]:
        click.echo(f"waits for the reader of subscription {number}")
    if known["held"]:
        peers = len({held["peer"] for held in known["held"]})
        click.echo(f"{counted(peers, 'node')} signed for it", err=True)
