"""Which protocol is run, and what of the other options it has no use for."""

from __future__ import annotations

import click

from smartpubsub.cli.again import is_given
from smartpubsub.cli.protocol_types import ProtocolName, VariantName
from smartpubsub.protocols.registry import spec_of
from smartpubsub.sim.experiments.options import TOPICS_SCENARIO, SimOptions
from smartpubsub.sim.judging.result import Result

protocol_option = click.option(
    "--protocol", required=True, type=ProtocolName(), help="What the nodes run."
)
variant_option = click.option(
    "--variant",
    type=VariantName(),
    callback=lambda _context, _option, value: value or "",
    help="Which variant of it, where there are several.  [default: the last]",
)


def note_what_is_ignored(context: click.Context, protocol: str) -> None:
    """Say which of the options that were given mean nothing to a protocol."""
    if not spec_of(protocol).variants and is_given(context, "variant"):
        click.echo(f"note: {protocol} has no variants, so --variant changes nothing", err=True)
    if not spec_of(protocol).has_only_topics and is_given(context, "ordered"):
        click.echo(f"note: {protocol} has no topics, so --ordered changes nothing", err=True)
    if is_given(context, "regions") and is_given(context, "latency_ms"):
        click.echo(
            "note: --regions says how long links are, so --latency-ms changes nothing", err=True
        )


def note_what_is_instead(protocol: str, options: SimOptions) -> None:
    """Say so if a protocol runs something else than others do under the same name."""
    is_changed = not options.workload and options.scenario_name != TOPICS_SCENARIO
    if spec_of(protocol).has_only_topics and is_changed:
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
