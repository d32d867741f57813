"""smartpubsub why."""

from __future__ import annotations

from typing import Any

import click

from smartpubsub.cli.event import event_id
from smartpubsub.cli.node.options import data_option, running_node
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.protocols.blocks import time_text


@click.command()
@click.argument("event", metavar="EVENT", callback=event_id)
@click.option(
    "--subscription",
    metavar="N|PREDICATE",
    required=True,
    help="The subscription: its number, or its predicate.",
)
@data_option
@click.option(
    "--node",
    "publisher_data",
    metavar="DIR",
    help="The data folder of the node that published the event, if that is another one.",
)
@json_option
def why(
    event: str, subscription: str, data: str | None, publisher_data: str | None, as_json: bool
) -> None:
    """Show why an event has arrived at a subscription, or has not.

    EVENT is the id that pub prints. The node of the subscription answers. Only the node that
    published the event knows its predicate and whether the network has it; name it with --node.
    Nodes remember the last 100 events since they were started, and the last 1,000 of the last
    fifteen minutes.

    \b
    Examples:
      smartpubsub why 9f86d081884c7d65-1767225600-3 --subscription 'surf/price[10,20]'
      smartpubsub why 9f86d081884c7d65-1767225600-3 --subscription 7 --data b --node a --json
    """
    wanted: dict[str, Any] = {"event": event}
    if subscription.isascii() and subscription.isdigit():
        wanted["subscription"] = int(subscription)
    else:
        wanted["filter"] = subscription
    if publisher_data is not None:
        with running_node(publisher_data) as publisher:
            wanted["publisher_facts"] = publisher.ask("event-facts", event=event)
    with running_node(data) as node:
        found = node.ask("why", **wanted)
    if as_json:
        print_json({"event": event, "subscription": subscription, **found})
        return
    click.echo(f"{found['cause']}: {found['detail']}")
    if found["at_us"] is not None:
        click.echo(f"arrived  {time_text(found['at_us'])}")
