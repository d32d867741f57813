"""Which protocol is run, and what of the other options it has no use for."""

from __future__ import annotations

import click

from smartpubsub.cli.again import is_given
from smartpubsub.sim.stacks import STACKS, VARIANTS

PLANNED_PROTOCOLS = ("scoutsubs", "fastdelivery", "pulsarcast", "floodsub", "gossipsub")


def known_protocol(
    _context: click.Context, _parameter: click.Parameter, given: str | tuple[str, ...]
) -> str | tuple[str, ...]:
    """Refuse a protocol that is not there, and say which are."""
    for name in (given,) if isinstance(given, str) else given:
        if name not in STACKS:
            there = ", ".join(STACKS)
            problem = "is not built yet" if name in PLANNED_PROTOCOLS else "is no protocol"
            raise click.BadParameter(f"{name!r} {problem}; there are: {there}")
    return given


protocol_option = click.option(
    "--protocol",
    required=True,
    callback=known_protocol,
    metavar=f"[{'|'.join(STACKS)}]",
    help="What the nodes run.",
)
variant_option = click.option(
    "--variant",
    type=click.Choice(VARIANTS),
    default=VARIANTS[-1],
    show_default=True,
    help="Which variant of it, where there are several.",
)


def note_what_is_ignored(context: click.Context, protocol: str) -> None:
    """Say which of the options that were given mean nothing to a protocol."""
    if not STACKS[protocol].has_variants and is_given(context, "variant"):
        click.echo(f"note: {protocol} has no variants, so --variant changes nothing", err=True)
    if not STACKS[protocol].has_topics and is_given(context, "ordered"):
        click.echo(f"note: {protocol} has no topics, so --ordered changes nothing", err=True)
