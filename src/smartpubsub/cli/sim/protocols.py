"""The protocol of a run, and notes about options that do not apply to it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from smartpubsub.cli.again import is_given
from smartpubsub.cli.protocol_types import ProtocolName, VariantName
from smartpubsub.protocols.registry import spec_of
from smartpubsub.sim.experiments.options import REPLACED_SCENARIOS, TOPICS_SCENARIO, SimOptions
from smartpubsub.sim.judging.result import Result


def _one_protocol(context: click.Context, _option: click.Parameter, given: Sequence[str]) -> str:
    # Click takes the last one, and the user would not learn that the others did not run.
    if len(given) > 1:
        raise click.UsageError(
            "--protocol is given more than once; give one, or compare several with: smartpubsub sim"
            " compare",
            context,
        )
    return given[0]


protocol_option = click.option(
    "--protocol",
    default=("scoutsubs",),
    show_default=True,
    multiple=True,
    callback=_one_protocol,
    type=ProtocolName(),
    help="The protocol that the nodes run.",
)
variant_option = click.option(
    "--variant",
    type=VariantName(),
    callback=lambda _context, _option, value: value or "",
    help="The variant of the protocol, if it has variants.  [default: the last]",
)


def note_what_is_ignored(context: click.Context, protocol: str) -> None:
    """Print a note for each given option that does not apply to a protocol."""
    if not spec_of(protocol).variants and is_given(context, "variant"):
        click.echo(f"note: {protocol} has no variants, so --variant has no effect", err=True)
    if not spec_of(protocol).has_only_topics and is_given(context, "ordered"):
        click.echo(f"note: {protocol} has no topics, so --ordered has no effect", err=True)
    if is_given(context, "regions") and is_given(context, "latency_ms"):
        click.echo(
            "note: --regions determines the latency, so --latency-ms has no effect", err=True
        )


def note_what_is_instead(protocol: str, options: SimOptions) -> None:
    """Print a note if a protocol runs a scenario with topics instead of predicates."""
    is_changed = not options.workload and options.scenario_name in REPLACED_SCENARIOS
    if spec_of(protocol).has_only_topics and is_changed:
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
