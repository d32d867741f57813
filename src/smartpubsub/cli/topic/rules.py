"""The options for the rules of a topic, of the commands that create topics and versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from smartpubsub.cli.group.own import peer_or_address
from smartpubsub.protocols.blocks import CidError, cid_from_text, cid_text
from smartpubsub.protocols.pulsarcast.topics import (
    ANYONE,
    META,
    NAME_CHARACTERS_MAX,
    NOBODY,
    SELF,
    Linking,
)

Command = TypeVar("Command", bound=Callable[..., Any])


def topic_id(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    """Parse a topic's content id; raise a usage error if it is invalid."""
    try:
        return cid_text(cid_from_text(text))
    except CidError as error:
        raise click.BadParameter(str(error)) from None


def _topic_id_or_name(context: click.Context, parameter: click.Parameter, text: str) -> str:
    """Check a content id; any other text is the name of a topic, which the node looks up."""
    return topic_id(context, parameter, text) if text.startswith("bafyrei") else text


topic_argument = click.argument("topic", metavar="TOPIC", callback=_topic_id_or_name)


def topic_name(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    """Check a topic's name; raise a usage error about its length."""
    if not 1 <= len(text) <= NAME_CHARACTERS_MAX:
        raise click.BadParameter(f"a topic's name has 1 to {NAME_CHARACTERS_MAX:,} characters")
    return text


def _subtopics(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str]:
    links: dict[str, str] = {}
    for text in texts:
        name, equals, id = text.rpartition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not NAME=TOPIC, such as surf=bafyrei…")
        if name == META:
            raise click.BadParameter(f"{META} is every topic's own; choose another name")
        if name in links:
            raise click.BadParameter(f"{name!r} is given twice; give it once")
        links[topic_name(context, parameter, name)] = topic_id(context, parameter, id)
    return links


def _peers(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    for text in texts:
        if text not in (SELF, ANYONE, NOBODY):
            peer_or_address(context, parameter, text)
    return texts


def rule_options(command: Command) -> Command:
    """The options for the rules and the sub-topics of a topic."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option(
        "--ordered/--unordered",
        default=None,
        help="Give all readers one order: only this node publishes, also on request of peers.",
    ),
    click.option(
        "--allow",
        "publishers",
        metavar=f"PEER|{SELF}|{ANYONE}",
        multiple=True,
        callback=_peers,
        help=f"A peer that may publish; may be repeated. This node may only if {SELF} is given.",
    ),
    click.option(
        "--request",
        "requesters",
        metavar=f"PEER|{ANYONE}|{NOBODY}",
        multiple=True,
        callback=_peers,
        help="A peer that may ask the publishers to publish; may be repeated.",
    ),
    click.option(
        "--linking",
        type=click.Choice([linking.word for linking in Linking]),
        help="What events link to: the newest seen event, or the events of topic publish --parent.",
    ),
    click.option(
        "--sub-topic",
        "subtopics",
        metavar="NAME=TOPIC",
        multiple=True,
        callback=_subtopics,
        help="A link to another topic; may be repeated.",
    ),
)


def rule_fields(
    ordered: bool | None,
    publishers: tuple[str, ...],
    requesters: tuple[str, ...],
    linking: str | None,
    subtopics: dict[str, str],
) -> dict[str, object]:
    """The rules that were given as options."""
    if ordered and (publishers or requesters or linking):
        raise click.UsageError(
            "--ordered determines who may publish and ask; leave out --allow, --request and"
            " --linking"
        )
    for flag, names, words in (
        ("--allow", publishers, (ANYONE,)),
        ("--request", requesters, (ANYONE, NOBODY)),
    ):
        said = [word for word in words if word in names]
        if said and len(set(names)) > 1:
            raise click.UsageError(f"{flag} {said[0]} excludes other values; give it alone")
    fields: dict[str, object] = {}
    if ordered is not None:
        fields["ordered"] = ordered
    if publishers:
        fields["publishers"] = [*publishers]
    if requesters:
        fields["requesters"] = [*requesters]
    if linking:
        fields["linking"] = linking
    if subtopics:
        fields["subtopics"] = subtopics
    return fields
