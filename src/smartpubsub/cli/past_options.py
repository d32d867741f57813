"""The options that select past events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import click

from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.api.past import event_or_time

Command = Callable[[Callable[..., Any]], Callable[..., Any]]


def since_option(read: Callable[[str], object], named: str, printed_by: str) -> Command:
    """An option whose value is an event or a time."""

    def check(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
        if text is None or isinstance(event_or_time(text), datetime):
            return text
        try:
            read(text)
        except SmartPubSubError:
            raise click.BadParameter(
                f"{text!r} is neither an event's {named}, which {printed_by} --json prints,"
                " nor a time such as 2026-01-31T12:00Z, nor a period such as 1h"
            ) from None
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
