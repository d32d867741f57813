"""The options that select past events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from smartpubsub.node.api.past import checked_since
from smartpubsub.node.errors import NodeError

Command = Callable[[Callable[..., Any]], Callable[..., Any]]


def since_option(read: Callable[[str], object], named: str) -> Command:
    """An option whose value is an event or a time."""

    def check(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
        try:
            checked_since(text, read)
        except NodeError as error:
            raise click.BadParameter(str(error).removeprefix("since: ")) from None
        return text

    return click.option(
        "--since",
        callback=check,
        metavar="EVENT|TIME|PERIOD",
        help=f"Only events after this one, by its {named}, since a time like 2026-01-31T12:00Z, or"
        " within a period, such as 90s, 15m, 1h, 2d or 1w.",
    )


last_option = click.option("--last", type=click.IntRange(min=1), help="Only the last N events.")


def past_fields(since: str | None, last: int | None) -> dict[str, object]:
    """The part of a request to a node that selects past events."""
    if since is not None and last is not None:
        raise click.UsageError("--since and --last exclude each other; give one of them")
    wanted: dict[str, object | None] = {"since": since, "last": last}
    return {name: value for name, value in wanted.items() if value is not None}
