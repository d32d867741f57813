"""What commands say when not all of a topic's history could be had."""

from __future__ import annotations

from typing import Any

import click

from smartpubsub.cli.output import counted

NAMED_MAX = 3
"""How many events are named; --json names all."""


def tell_gaps(gaps: dict[str, Any] | None, topic: str = "the topic") -> None:
    """Say what is not there, if anything is not."""
    if gaps is None:
        return
    missing, silent = gaps["missing"], gaps["silent_keepers"]
    if missing:
        more = ", ..." if len(missing) > NAMED_MAX else ""
        named = ", ".join(missing[:NAMED_MAX]) + more
        was = "was" if len(missing) == 1 else "were"
        note = f"{counted(len(missing), 'event')} of {topic} {was} not found: {named}"
        click.echo(f"note: {note}; ask again later, who has what is missing may be away", err=True)
    if gaps["let_go"]:
        click.echo(f"note: the oldest events of {topic} are kept no more", err=True)
    if silent:
        note = f"{silent} of the nodes that keep {topic} did not answer"
        click.echo(f"note: {note}; there may be newer events", err=True)
