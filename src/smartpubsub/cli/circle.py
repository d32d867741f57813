"""smartpubsub circle."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from smartpubsub.cli.node.options import configured, data_option, node_packages
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.cli.pub import payload_of
from smartpubsub.errors import SmartPubSubError

if TYPE_CHECKING:
    from smartpubsub.node.api.circle import Circle

letter_option = click.option(
    "--letter",
    "letter_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the letter with the key for all members to this file.",
)
owner_option = click.option(
    "--owner", metavar="PEER", help="The owner's peer id.  [default: this node]"
)


@click.group()
def circle() -> None:
    """Distribute the keys of payloads that only members can read.

    A circle is for a topic, a group or any events. Its owner distributes the key to the members,
    and replaces it when a member is removed. Predicates stay readable for all nodes on the way.

    \b
    Examples:
      smartpubsub circle add plans 12D3KooWPH33... --letter plans.letter
      smartpubsub circle seal plans 'at dawn' | smartpubsub topic publish TOPIC -
    """


@circle.command()
@click.argument("name")
@click.argument("members", metavar="PEER...", nargs=-1, required=True)
@letter_option
@data_option
def add(name: str, members: tuple[str, ...], letter_file: Path | None, data: str | None) -> None:
    """Let nodes read and write in a circle of this node.

    They learn the key from the letter, or from an event that its owner publishes with it. The first
    member makes the circle.

    \b
    Example:
      smartpubsub circle add plans 12D3KooWPH33... --letter plans.letter
    """
    own = _circle(data, name)
    for member in members:
        own.add(member)
    _hand_out(own, name, letter_file)


@circle.command()
@click.argument("name")
@click.argument("members", metavar="PEER...", nargs=-1, required=True)
@letter_option
@data_option
def remove(name: str, members: tuple[str, ...], letter_file: Path | None, data: str | None) -> None:
    """Remove nodes from a circle of this node, and replace its key.

    They can still read what was written with earlier keys.

    \b
    Example:
      smartpubsub circle remove plans 12D3KooWPH33... --letter plans.letter
    """
    own = _circle(data, name)
    for member in members:
        own.remove(member)
    _hand_out(own, name, letter_file)


@circle.command()
@click.argument("name")
@click.argument("letter_file", metavar="LETTER", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--owner", metavar="PEER", required=True, help="The owner's peer id.")
@data_option
def join(name: str, letter_file: Path, owner: str, data: str | None) -> None:
    """Take the key of a circle from a letter of its owner.

    \b
    Example:
      smartpubsub circle join plans plans.letter --owner 12D3KooWPH33...
    """
    try:
        letter = letter_file.read_bytes()
    except OSError as error:
        raise click.BadParameter(f"{letter_file}: {error.strerror}", param_hint="LETTER") from None
    joined = _circle(data, name, owner)
    joined.take(letter)
    click.echo(f"{name}: key {joined.number} is known here", err=True)


@circle.command()
@click.argument("name")
@owner_option
@data_option
@json_option
def show(name: str, owner: str | None, data: str | None, as_json: bool) -> None:
    """Show a circle: its owner, the number of its latest key here, and at the owner its members.

    \b
    Example:
      smartpubsub circle show plans --json
    """
    known = _circle(data, name, owner)
    document: dict[str, Any] = {
        "name": name,
        "owner": known.owner,
        "number": known.number,
        "members": list(known.members) if known.is_owner else None,
    }
    if as_json:
        print_json(document)
        return
    click.echo(f"owner   {known.owner}")
    click.echo(f"key     {known.number or _without_key(known)}")
    for member in known.members:
        click.echo(f"member  {member}")


@circle.command()
@click.argument("name")
@click.argument("payload_text", metavar="[DATA|-]", default="-")
@owner_option
@data_option
def seal(name: str, payload_text: str, owner: str | None, data: str | None) -> None:
    """Encrypt a payload for the members of a circle, on standard output.

    \b
    Example:
      smartpubsub circle seal plans 'at dawn' | smartpubsub pub plan -
    """
    _write(_tried(_circle(data, name, owner).dumps, payload_of(payload_text)))


@circle.command(name="open")
@click.argument("name")
@owner_option
@data_option
def open_payload(name: str, owner: str | None, data: str | None) -> None:
    """Decrypt a payload of a circle from standard input, on standard output.

    \b
    Example:
      smartpubsub circle open plans --owner 12D3KooWPH33... < payload
    """
    _write(_tried(_circle(data, name, owner).loads, sys.stdin.buffer.read()))


class _Bytes:
    """A serialiser that leaves bytes unchanged."""

    def dumps(self, value: Any, /) -> bytes:
        return bytes(value)

    def loads(self, payload: bytes, /) -> Any:
        return payload


def _circle(data: str | None, name: str, owner: str | None = None) -> Circle:
    with node_packages():
        from smartpubsub.node.api.circle import Circle
    return Circle(configured({"data": data}).data, name, owner=owner, inside=_Bytes())


def _without_key(known: Circle) -> str:
    if known.is_owner:
        return "none; circle add makes one, with the first member"
    return "none; take a letter of the owner with circle join"


def _tried(call: Any, content: bytes) -> bytes:
    try:
        return bytes(call(content))
    except ValueError as error:
        raise SmartPubSubError(f"the payload cannot be written or read: {error}") from None


def _write(content: bytes) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _hand_out(own: Circle, name: str, file: Path | None) -> None:
    """Write the letter if a file is given, and print the state of the circle."""
    if file is not None:
        try:
            file.write_bytes(own.letter())
        except OSError as error:
            raise click.BadParameter(f"{file}: {error.strerror}", param_hint="--letter") from None
    count = len(own.members)
    members = "1 member" if count == 1 else f"{count:,} members"
    letter = f"; the letter is in {file}" if file is not None else ""
    click.echo(f"{name}: {members}, key {own.number}{letter}", err=True)
