"""Notes about missing parts of a topic's history."""

from __future__ import annotations

from typing import Any

import click

from smartpubsub.cli.output import counted

NAMED_MAX = 3
"""The number of events that are named; --json names all."""


def report_gaps(gaps: dict[str, Any] | None, topic: str = "the topic") -> None:
    """Report missing events, if there are any."""
    if gaps is None:
        return
    missing, silent = gaps["missing"], gaps["silent_keepers"]
    if missing:
        more = ", ..." if len(missing) > NAMED_MAX else ""
        named = ", ".join(missing[:NAMED_MAX]) + more
        was = "was" if len(missing) == 1 else "were"
        note = f"{counted(len(missing), 'event')} of {topic} {was} not found: {named}"
        click.echo(f"note: {note}; try again later, the nodes that have them may be down", err=True)
    if gaps["let_go"]:
        click.echo(f"note: the oldest events of {topic} are no longer kept", err=True)
    if silent:
        note = f"{silent} of the nodes that keep {topic} did not answer"
        click.echo(f"note: {note}; there may be newer events", err=True)
