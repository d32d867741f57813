"""smartpubsub group create, list, advertise, invite, end and publish: the commands of owners."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import click

from smartpubsub.cli.explain import read
from smartpubsub.cli.node.options import ATTRIBUTES_MAX, data_option, node_packages, running_node
from smartpubsub.cli.output import counted, json_option, print_json
from smartpubsub.cli.pub import failures_as_json, file_option, key_option, payload_of
from smartpubsub.cli.publishing import WAITS
from smartpubsub.errors import SmartPubSubError
from smartpubsub.predicates import Predicate

group_argument = click.argument("group_text", metavar="GROUP")


def read_group(text: str) -> Predicate:
    """The predicate that a group is named by."""
    return read("GROUP", text, Predicate.parse, ATTRIBUTES_MAX)


def peer_or_address(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> str | None:
    """Parse a peer id; raise a usage error if it is invalid."""
    if text is not None:
        with node_packages():
            from smartpubsub.node.transport.contacts import contact_of
        try:
            contact_of(text)
        except SmartPubSubError as error:
            raise click.BadParameter(str(error)) from None
    return text


@click.command()
@group_argument
@data_option
@click.option(
    "--private", is_flag=True, help="Only invited peers may join; the group is not advertised."
)
@click.option("--unadvertised", is_flag=True, help="Hide the group from searches.")
@json_option
def create(
    group_text: str, data: str | None, private: bool, unadvertised: bool, as_json: bool
) -> None:
    """Create a group to publish in.

    GROUP is the predicate that all its events match. Prints the address of its owner, which other
    nodes need to join it. The group survives a restart of the node. Creating it again is an error
    if --private or --unadvertised would change it.

    \b
    Examples:
      smartpubsub group create 'apple/france/price[0,1]'
      smartpubsub group create 'board-meeting' --private --json
    """
    group = read_group(group_text)
    is_advertised = not (unadvertised or private)
    with running_node(data) as node:
        made = node.ask("group-create", group=str(group), private=private, advertised=is_advertised)
    show_group(made, as_json)


@click.command("list")
@data_option
@json_option
def list_(data: str | None, as_json: bool) -> None:
    """List the groups that the node owns or has joined.

    Shows the number of members of the groups that it owns.

    \b
    Example:
      smartpubsub group list --json
    """
    with running_node(data) as node:
        groups = node.ask("group-list")
    if as_json:
        print_json(groups)
        return
    for group in groups:
        words = [counted(group["members"], "member")] if group["is_own"] else ["joined"]
        words += ["private"] if group["is_private"] else []
        words += ["advertised"] if group["is_advertised"] else []
        click.echo(f"{group['group']}  {group['owner']}  ({', '.join(words)})")
    if not groups:
        click.echo("no groups; find some with group search, or create one", err=True)


@click.command()
@group_argument
@data_option
@json_option
def advertise(group_text: str, data: str | None, as_json: bool) -> None:
    """Make a group visible to searches.

    Groups are advertised when they are created, unless hidden. Private groups are never advertised.

    \b
    Example:
      smartpubsub group advertise 'apple/france/price[0,1]'
    """
    group = read_group(group_text)
    with running_node(data) as node:
        made = node.ask("group-advertise", group=str(group))
    show_group(made, as_json)


def show_group(made: dict[str, Any], as_json: bool) -> None:
    """Print a group and the address of its owner."""
    if as_json:
        print_json(made)
    else:
        click.echo(f"{made['group']}  {made['owner']}")


@click.command()
@group_argument
@click.argument("peer", metavar="PEER", callback=peer_or_address)
@data_option
@json_option
def invite(group_text: str, peer: str, data: str | None, as_json: bool) -> None:
    """Invite a peer to a private group.

    PEER is the peer id of the guest's node. Prints the invitation, which the guest passes to group
    join.

    \b
    Example:
      smartpubsub group invite 'board-meeting' 12D3KooWPjceQrSwdWXPyLLeABRXmuqt69Rg3sBYbU1Nft9HyQ6X
    """
    group = read_group(group_text)
    with running_node(data) as node:
        made = node.ask("group-invite", group=str(group), peer=peer)
    if as_json:
        print_json(made)
    else:
        click.echo(made["invitation"])


@click.command()
@group_argument
@data_option
@json_option
def end(group_text: str, data: str | None, as_json: bool) -> None:
    """End a group of this node.

    Fails while events of the group are on their way to members. The node tells the members at once;
    a member that it does not reach learns it when it renews its membership, within 15 minutes.
    Searches find the group for up to half an hour more.

    \b
    Example:
      smartpubsub group end 'apple/france/price[0,1]'
    """
    group = read_group(group_text)
    with running_node(data) as node:
        ended = node.ask("group-end", group=str(group))
    if as_json:
        print_json(ended)
    else:
        click.echo(f"ended {ended['group']}")


@click.command()
@group_argument
@click.argument("event_text", metavar="EVENT")
@click.argument("payload_text", metavar="[DATA|-]", default="")
@data_option
@click.option(
    "--wait",
    type=click.Choice(WAITS),
    default=WAITS[1],
    show_default=True,
    help="Wait until all reachable members have it, or until all members have it.",
)
@click.option(
    "--everywhere", is_flag=True, help="Publish it outside the group too, as the same event."
)
@file_option
@key_option
@json_option
def publish(
    group_text: str,
    event_text: str,
    payload_text: str,
    data: str | None,
    wait: str,
    everywhere: bool,
    file: Path | None,
    key: str | None,
    as_json: bool,
) -> None:
    """Publish an event in a group.

    EVENT must match the group's predicate. DATA is the payload; - reads it from standard input.
    Prints the event's id.

    To retry safely, give a --key, as in pub; the keys of each group are its own. Failures and
    --json are as in pub.

    \b
    Examples:
      smartpubsub group publish 'apple/price[0,1]' 'apple/price=0.5' 'fresh'
      smartpubsub group publish 'apple/price[0,1]' 'apple/price=0.5' - --wait all < offer.html
    """
    group = read_group(group_text)
    event = read("EVENT", event_text, Predicate.parse, ATTRIBUTES_MAX)
    fields: dict[str, object] = {"group": str(group), "event": str(event), "wait": wait}
    fields["everywhere"] = everywhere
    if key is not None:
        fields["key"] = key
    with failures_as_json(as_json), running_node(data) as node:
        payload = base64.b64encode(payload_of(payload_text, file)).decode()
        receipt = node.ask("group-publish", payload=payload, **fields)
    if as_json:
        print_json(receipt)
    else:
        click.echo(receipt["id"])
