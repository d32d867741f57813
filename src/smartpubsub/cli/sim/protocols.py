"""Which protocol is run, and what of the other options it has no use for."""

from __future__ import annotations

import click

from smartpubsub.cli.again import is_given
from smartpubsub.sim.experiments.options import TOPICS_SCENARIO, SimOptions
from smartpubsub.sim.experiments.stacks import STACKS, VARIANTS
from smartpubsub.sim.judging.result import Result

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
    if is_given(context, "regions") and is_given(context, "latency_ms"):
        click.echo(
            "note: --regions says how long links are, so --latency-ms changes nothing", err=True
        )


def note_what_is_instead(protocol: str, options: SimOptions) -> None:
    """Say so if a protocol runs something else than others do under the same name."""
    is_changed = not options.workload and options.scenario_name != TOPICS_SCENARIO
    if STACKS[protocol].has_topics and is_changed:
        click.echo(
            f"note: {protocol} knows topics only, so this is the scenario {options.scenario_name}"
            f" with the topics of {TOPICS_SCENARIO} in the place of predicates",
            err=True,
        )


def note_what_did_not_happen(options: SimOptions, result: Result) -> None:
    """Say so if faults were asked for and the run was over before any of them."""
    if options.churn and not result.experiment.observer.journal.downs:
        click.echo(
            "note: no node went down, for the workload was over before; more --events make it"
            " longer, a smaller UP in --churn brings it sooner",
            err=True,
        )
