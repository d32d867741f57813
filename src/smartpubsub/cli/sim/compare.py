"""smartpubsub sim compare."""

from collections.abc import Sequence
from typing import Any

import click

from smartpubsub.cli.commands import FAILURE
from smartpubsub.cli.main import INTERRUPTED
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.cli.protocol_types import ProtocolName, VariantName
from smartpubsub.cli.sim.options import sim_options
from smartpubsub.cli.sim.progress import StderrProgress
from smartpubsub.cli.sim.text import percent, table
from smartpubsub.protocols.registry import PROTOCOLS, protocol_names, spec_of
from smartpubsub.sim.experiments.comparison import compared
from smartpubsub.sim.experiments.options import (
    REPLACED_SCENARIOS,
    TOPICS_SCENARIO,
    TOPICS_SCENARIOS,
    SimOptions,
)
from smartpubsub.sim.judging import result as results

HEAD = (
    "protocol",
    "variant",
    "expected",
    "coverage",
    "missing",
    "duplicates",
    "mean ms",
    "p99 ms",
    "hops",
    "messages",
    "bytes",
    "per delivery",
    "for nothing",
)


@click.command()
@click.option(
    "--protocol",
    "protocols",
    multiple=True,
    type=ProtocolName(),
    help="A protocol to compare; may be repeated.  [default: all; protocols with topics"
    " only in the scenario reddit]",
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    type=VariantName(),
    help="A variant to compare, if the protocol has any; may be repeated.  [default: all]",
)
@sim_options
@json_option
@click.pass_context
def compare(
    context: click.Context,
    /,
    options: SimOptions,
    *,
    protocols: tuple[str, ...],
    variants: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run several protocols in the same world, side by side.

    Takes the options of `sim run`; seed, workload and faults are the same for all. The expected
    deliveries may still differ: a subscription counts from its acknowledgement by the protocol. The
    last columns are messages per delivery, and copies of events to nodes that did not want them.
    With --json, prints a list of the documents of `sim run`, with these two added. The exit code is
    1 if an invariant was violated in one of the runs.

    If one of the protocols has topics only, as pulsarcast does, all of them run the scenario with
    topics instead of predicates, and a note says so.

    \b
    Examples:
      smartpubsub sim compare --scenario normal --nodes 100
      smartpubsub sim compare --protocol floodsub --protocol gossipsub --loss 0.05 --json
    """
    usual = usual_protocols(options)
    if not protocols:
        note_left_out([name for name in protocol_names() if name not in usual])
    chosen = choices(protocols or usual, variants)
    workload = options.load([protocol for protocol, _ in chosen])
    note_topics([protocol for protocol, _ in chosen], options)
    documents: list[dict[str, Any]] = []
    for protocol, variant in chosen:
        with StderrProgress(f"{protocol}, ") as progress:
            experiment = options.experiment(protocol, variant, workload, progress=progress)
            result = results.run(experiment, options.scenario_name)
        documents.append(compared(result))
        if experiment.was_interrupted:
            break
    if as_json:
        print_json(documents)
    else:
        click.echo(table(HEAD, [cells(document) for document in documents], left=2))
    broken = [document for document in documents if document["violations"]]
    for document in broken:
        names = " ".join(filter(None, (document["protocol"], document["variant"])))
        click.echo(f"{names}: {len(document['violations']):,} violations", err=True)
    if documents[-1]["interrupted"]:
        context.exit(INTERRUPTED)
    if broken:
        context.exit(FAILURE)


def note_topics(protocols: Sequence[str], options: SimOptions) -> None:
    """Print a note if a protocol with topics only changes the scenario of all."""
    knowing = [name for name in dict.fromkeys(protocols) if spec_of(name).has_only_topics]
    is_changed = not options.workload and options.scenario_name in REPLACED_SCENARIOS
    if knowing and is_changed:
        click.echo(
            f"note: {' and '.join(knowing)} has topics only, so in this run all protocols get the"
            f" scenario {options.scenario_name} with topics instead of predicates",
            err=True,
        )


def note_left_out(protocols: Sequence[str]) -> None:
    """Print a note if the default choice leaves protocols out."""
    for name in protocols:
        click.echo(
            f"note: {name} has topics only and is left out; to compare it too, name it and"
            f" others with --protocol, or use the scenario {TOPICS_SCENARIO}",
            err=True,
        )


def usual_protocols(options: SimOptions) -> tuple[str, ...]:
    """All protocols that can run the scenario unchanged; protocols with topics only cannot."""
    has_topics = options.scenario_name in TOPICS_SCENARIOS
    specs = PROTOCOLS.specs.values()
    return tuple(spec.name for spec in specs if has_topics or not spec.has_only_topics)


def choices(protocols: Sequence[str], variants: Sequence[str]) -> list[tuple[str, str]]:
    """The runs: each protocol in its chosen variants, or in all of them."""
    chosen = []
    for protocol in dict.fromkeys(protocols):
        spec = spec_of(protocol)
        wanted = [name for name in dict.fromkeys(variants) if name in spec.variants]
        chosen += [(protocol, variant) for variant in wanted or spec.variants or ("",)]
    return chosen


def cells(document: dict[str, Any]) -> list[str]:
    """A result as a row of the table."""
    per_delivery = document["messages_per_delivery"]
    return [
        document["protocol"],
        "(interrupted)" if document["interrupted"] else document["variant"] or "",
        f"{document['expected']:,}",
        percent(document["coverage_injected"]) if document["expected"] else "-",
        f"{document['missing']:,}",
        f"{document['app_duplicates']:,}",
        f"{document['latency_ms']['mean']:,.1f}",
        f"{document['latency_ms']['p99']:,.1f}",
        f"{document['hops']['mean']:.2f}",
        f"{document['messages']:,}",
        f"{document['bytes']:,}",
        "" if per_delivery is None else f"{per_delivery:,.1f}",
        f"{document['carried_for_nothing']:,}",
    ]
