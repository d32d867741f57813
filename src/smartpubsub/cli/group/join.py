"""smartpubsub group search, join and leave: the commands of members."""

from __future__ import annotations

import base64

import click

from smartpubsub.cli.explain import read
from smartpubsub.cli.group.own import group_argument, peer_or_address, read_group
from smartpubsub.cli.node.options import ATTRIBUTES_MAX, data_option, running_node
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.cli.sub import overflow_option, show, show_all
from smartpubsub.errors import SmartPubSubError
from smartpubsub.predicates import Predicate

_owner_help = "The owner's address, or its peer id; group search and group create print it."


def _invitation(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> str | None:
    try:
        base64.b64decode(text or "", validate=True)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not an invitation; copy the whole output of group invite"
        ) from None
    return text


@click.command()
@click.argument("predicate_text", metavar="PREDICATE")
@data_option
@json_option
def search(predicate_text: str, data: str | None, as_json: bool) -> None:
    """Find groups.

    Finds the groups that have every attribute of PREDICATE, and whose ranges contain its ranges.
    Prints each with its owner.

    \b
    Examples:
      smartpubsub group search apple
      smartpubsub group search 'france/price[0.2,0.5]' --json
    """
    predicate = read("PREDICATE", predicate_text, Predicate.parse, ATTRIBUTES_MAX)
    with running_node(data) as node:
        found = node.ask("group-search", predicate=str(predicate))
    if as_json:
        print_json(found)
        return
    for group in found:
        click.echo(f"{group['group']}  {group['owner']}")
    if not found:
        click.echo(
            f"no group matches {predicate}; search for less, or wait until there is one",
            err=True,
        )


@click.command()
@group_argument
@click.option(
    "--owner",
    metavar="ADDRESS",
    callback=peer_or_address,
    help=f"{_owner_help}  [default: the one that is found]",
)
@click.option(
    "--wanted", metavar="PREDICATE", help="The predicate of the events to get.  [default: all]"
)
@click.option(
    "--invitation",
    metavar="TEXT",
    callback=_invitation,
    help="The invitation from the owner of a private group.",
)
@click.option("--limit", type=click.IntRange(min=0), help="End after N events.")
@click.option(
    "--and-sub", is_flag=True, help="Subscribe outside the group too; each event is printed once."
)
@overflow_option
@data_option
@json_option
def join(
    group_text: str,
    owner: str | None,
    wanted: str | None,
    invitation: str | None,
    limit: int | None,
    and_sub: bool,
    overflow: str,
    data: str | None,
    as_json: bool,
) -> None:
    """Join a group, and print its events as they arrive.

    With --json, each event is one JSON document on its own line. The membership ends with the
    command, or by group leave. It is an error if the owner refuses, or does not answer within 60
    seconds. If output is not read, up to 1,000 events wait in the node; --overflow says what
    happens then.

    \b
    Examples:
      smartpubsub group join 'apple/france/price[0,1]' --wanted 'apple/price[0,0.5]'
      smartpubsub group join 'board-meeting' --owner 12D3KooW… --invitation GpFX…== --json
    """
    group = read_group(group_text)
    fields: dict[str, object] = {"group": str(group), "everywhere": and_sub, "overflow": overflow}
    if wanted is not None:
        fields["wanted"] = str(read("--wanted", wanted, Predicate.parse, ATTRIBUTES_MAX))
    if invitation is not None:
        fields["invitation"] = invitation
    if limit is not None:
        fields["limit"] = limit
    with running_node(data) as node:
        fields["owner"] = owner or the_one_owner(
            node.ask("group-search", predicate=str(group)), group
        )
        click.echo(f"waiting for the owner of {group}", err=True)
        _, events = node.stream("group-join", fields)
        click.echo(f"in the group {group}", err=True)
        show_all(events, lambda event: show(event, as_json))


def the_one_owner(found: list[dict[str, str]], group: Predicate) -> str:
    """The owner of the group with exactly this predicate."""
    owners = [
        each["owner"]
        for each in found
        if Predicate.parse(each["group"], attributes_max=ATTRIBUTES_MAX) == group
    ]
    if len(owners) == 1:
        return owners[0]
    if not owners:
        raise SmartPubSubError(f"no group {group} is advertised; name its owner with --owner")
    raise SmartPubSubError(
        f"{len(owners)} nodes own a group {group}; choose one with --owner: {' '.join(owners)}"
    )


@click.command()
@group_argument
@click.option(
    "--owner",
    metavar="ADDRESS",
    callback=peer_or_address,
    help=f"{_owner_help}  [default: any]",
)
@data_option
@json_option
def leave(group_text: str, owner: str | None, data: str | None, as_json: bool) -> None:
    """Leave a group.

    Ends all group join commands for it on this node.

    \b
    Example:
      smartpubsub group leave 'apple/france/price[0,1]'
    """
    group = read_group(group_text)
    fields = {"group": str(group)} | ({} if owner is None else {"owner": owner})
    with running_node(data) as node:
        left = node.ask("group-leave", **fields)["left"]
    if not left:
        raise SmartPubSubError(f"this node is not in the group {group}; join it first")
    if as_json:
        print_json({"left": left})
    else:
        click.echo(f"left {group}")
