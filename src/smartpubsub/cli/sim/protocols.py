"""The protocol of a run, and notes about options that do not apply to it."""

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
    """Refuse an unknown protocol, and list the known ones."""
    for name in (given,) if isinstance(given, str) else given:
        if name not in STACKS:
            there = ", ".join(STACKS)
            problem = "is not built yet" if name in PLANNED_PROTOCOLS else "is not a protocol"
            raise click.BadParameter(f"{name!r} {problem}; there are: {there}")
    return given


protocol_option = click.option(
    "--protocol",
    required=True,
    callback=known_protocol,
    metavar=f"[{'|'.join(STACKS)}]",
    help="The protocol that the nodes run.",
)
variant_option = click.option(
    "--variant",
    type=click.Choice(VARIANTS),
    default=VARIANTS[-1],
    show_default=True,
    help="The variant of the protocol, if it has variants.",
)


def note_what_is_ignored(context: click.Context, protocol: str) -> None:
    """Print a note for each given option that does not apply to a protocol."""
    if not STACKS[protocol].has_variants and is_given(context, "variant"):
        click.echo(f"note: {protocol} has no variants, so --variant has no effect", err=True)
    if not STACKS[protocol].has_topics and is_given(context, "ordered"):
        click.echo(f"note: {protocol} has no topics, so --ordered has no effect", err=True)
    if is_given(context, "regions") and is_given(context, "latency_ms"):
        click.echo(
            "note: --regions determines the latency, so --latency-ms has no effect", err=True
        )


def note_what_is_instead(protocol: str, options: SimOptions) -> None:
    """Print a note if a protocol runs a scenario differently from others."""
    is_changed = not options.workload and options.scenario_name != TOPICS_SCENARIO
    if STACKS[protocol].has_topics and is_changed:
        click.echo(
            f"note: {protocol} has topics only, so this is the scenario {options.scenario_name}"
            f" with the topics of {TOPICS_SCENARIO} instead of predicates",
            err=True,
        )


def note_what_did_not_happen(options: SimOptions, result: Result) -> None:
    """Print a note if the run was over before any of the requested faults."""
    if options.churn and not result.experiment.observer.journal.downs:
        click.echo(
            "note: no node went down before the workload was over; more --events make it"
            " longer, a smaller UP in --churn brings it sooner",
            err=True,
        )
