"""smartpubsub topic list, show, pin and unpin."""

from __future__ import annotations

from typing import Any

import click

from smartpubsub.cli.node.options import data_option, running_node
from smartpubsub.cli.output import counted, json_option, print_json
from smartpubsub.cli.sub import printable
from smartpubsub.cli.topic.rules import topic_argument


@click.command()
@topic_argument
@data_option
@json_option
def show(topic: str, data: str | None, as_json: bool) -> None:
    """Show a topic's author, rules and versions.

    Shows the newest version, even if another one is named.

    \b
    Example:
      smartpubsub topic show bafyrei… --json
    """
    with running_node(data) as node:
        shown = node.ask("topic-show", topic=topic)
    if as_json:
        print_json(shown)
        return
    for name, value in _described(shown):
        click.echo(f"{name:<14}  {value}".rstrip())


@click.command("list")
@data_option
@json_option
def list_(data: str | None, as_json: bool) -> None:
    """List the topics that the node takes part in.

    These are the topics that it created, subscribes to, has pinned or keeps for others, and those
    that it has just read. Shows for each its content id, the number of its events on this node, and
    its name.

    \b
    Example:
      smartpubsub topic list --json
    """
    with running_node(data) as node:
        topics = node.ask("topic-list")
    if as_json:
        print_json(topics)
        return
    for topic in topics:
        events = counted(topic["kept"]["events"], "event")
        name = printable(topic["name"].encode())
        click.echo(f"{topic['topic']}  {events:<10}  {name}  {_reasons(topic)}".rstrip())
    if not topics:
        click.echo("no topics; create one with: smartpubsub topic create NAME", err=True)


def _reasons(topic: dict[str, Any]) -> str:
    """Why a node takes part in a topic."""
    reasons = {
        "own": topic["is_own"],
        "subscribed": topic["subscriptions"],
        "pinned": topic["kept"]["is_pinned"],
        "kept for others": topic["kept"]["for_others"],
    }
    held = ", ".join(reason for reason, is_so in reasons.items() if is_so)
    return f"({held})" if held else ""


def _described(shown: dict[str, Any]) -> list[tuple[str, Any]]:
    """A topic as text."""
    publishers, requesters, kept = shown["publishers"], shown["requesters"], shown["kept"]
    asking = requesters or ["anyone"]
    versions = [f"{v['version']} {v['topic']} {v['created']}" for v in shown["versions"]]
    subtopics = [f"{name} {topic}" for name, topic in shown["subtopics"].items()]
    lists = [
        ("may publish", ["anyone"] if publishers is None else publishers),
        ("may ask them", asking if shown["takes_requests"] else []),
        ("sub-topics", subtopics),
        ("versions", versions),
    ]
    return [
        ("topic", shown["topic"]),
        ("name", shown["name"]),
        ("author", shown["author"]),
        ("version", shown["version"]),
        ("created", shown["created"]),
        ("ordered", "yes" if shown["ordered"] else "no"),
        ("linking", shown["linking"]),
        *((n if i == 0 else "", value) for n, values in lists for i, value in _numbered(values)),
        ("kept here", f"{kept['events']:,} events, {kept['bytes']:,} bytes"),
        ("pinned", "yes" if kept["is_pinned"] else "no"),
    ]


def _numbered(values: list[str]) -> list[tuple[int, str]]:
    return [*enumerate(values or ["-"])]


@click.command()
@topic_argument
@data_option
@json_option
def pin(topic: str, data: str | None, as_json: bool) -> None:
    """Keep a whole topic on the node.

    The node fetches all earlier events and discards none of them. For other topics, the node's
    limits topic_age_s_max, topic_event_count_max and topic_bytes_max apply.

    \b
    Example:
      smartpubsub topic pin bafyrei…
    """
    _pin(topic, True, data, as_json)


@click.command()
@topic_argument
@data_option
@json_option
def unpin(topic: str, data: str | None, as_json: bool) -> None:
    """Apply the node's limits to a pinned topic again.

    \b
    Example:
      smartpubsub topic unpin bafyrei…
    """
    _pin(topic, False, data, as_json)


def _pin(topic: str, pinned: bool, data: str | None, as_json: bool) -> None:
    with running_node(data) as node:
        done = node.ask("topic-pin", topic=topic, pinned=pinned)
    if as_json:
        print_json(done)
    elif pinned:
        click.echo(f"all of {topic} is kept from now on")
    else:
        click.echo(f"{topic} is kept within the limits of the node")
