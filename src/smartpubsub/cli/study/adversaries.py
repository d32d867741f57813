"""smartpubsub sim study adversaries."""

from collections.abc import Sequence
from pathlib import Path

import click

from smartpubsub.cli.output import ChartPath, WritablePath, json_option
from smartpubsub.cli.protocol_types import ProtocolName
from smartpubsub.cli.sim.progress import StderrProgress
from smartpubsub.cli.sim.text import percent
from smartpubsub.cli.sim.values import AdversaryType
from smartpubsub.cli.study.options import nodes_option, seed_option, show
from smartpubsub.protocols.spec import RESILIENCES
from smartpubsub.sim.adversaries.kinds import Adversary
from smartpubsub.sim.studies.adversaries import ATTACKS, Withstood, study

EVENTS_MAX = 100_000
HEAD = (
    "protocol",
    "resilience",
    "attack",
    "liars",
    "owed",
    "in 10 s",
    "in 30 s",
    "in 60 s",
    "at all",
    "acknowledged",
    "convicted",
    "p50 ms",
    "p99 ms",
    "messages",
    "KiB",
)


@click.command()
@nodes_option(60)
@click.option(
    "--events",
    type=click.IntRange(1, EVENTS_MAX),
    default=100,
    show_default=True,
    help="The number of events.",
)
@click.option(
    "--adversary",
    "attacks",
    type=AdversaryType(),
    multiple=True,
    help="An attack, beside a run without one; may be repeated.  [default: seventeen runs]",
)
@click.option(
    "--resilience",
    "resiliences",
    multiple=True,
    type=click.Choice(RESILIENCES),
    help="A resilience to run in; may be repeated.  [default: all that a protocol has]",
)
@click.option(
    "--protocol",
    "protocols",
    multiple=True,
    type=ProtocolName(),
    help="A protocol to run; may be repeated.  [default: all]",
)
@click.option(
    "--markdown",
    "page",
    type=WritablePath(),
    help="Write the table as Markdown to this file too.",
)
@click.option("--plot", type=ChartPath(), help="Write a chart (PNG or SVG).")
@seed_option
@json_option
def adversaries(
    nodes: int,
    events: int,
    attacks: tuple[Adversary, ...],
    resiliences: tuple[str, ...],
    protocols: tuple[str, ...],
    page: Path | None,
    plot: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Show how lying nodes affect honest nodes, in all protocols.

    Counts the events that honest nodes are owed, how many of them arrive and when, the nodes that
    were convicted by evidence, and the messages. The kinds of adversaries are those of `smartpubsub
    sim run --adversary`. The exit code is 1 if an event is lost.

    \b
    Examples:
      smartpubsub sim study adversaries
      smartpubsub sim study adversaries --protocol scoutsubs --adversary drop:0.2 --nodes 250
      smartpubsub sim study adversaries --markdown attacks.md --plot attacks.svg
    """
    chosen = (None, *attacks) if attacks else ATTACKS
    found = study(
        nodes, seed, events, chosen, protocols, resiliences or RESILIENCES, StderrProgress
    )
    rows = [cells(one) for one in found]
    if page is not None:
        page.write_text(markdown(rows), encoding="utf-8")
    if plot is not None:
        from smartpubsub.reports.adversaries_chart import plot_adversaries

        plot_adversaries(found, plot)
    show(found, HEAD, rows, as_json=as_json)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """The table as docs/security.md has it."""
    lines = [HEAD, ["---"] * len(HEAD), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cells(found: Withstood) -> list[str]:
    """A run as a row of the table."""
    times = (found.latency_ms_p50, found.latency_ms_p99)
    return [
        found.protocol,
        found.resilience,
        found.attack,
        f"{found.adversaries:,}",
        f"{found.expected:,}",
        percent(found.share_within_10_s),
        percent(found.share_within_30_s),
        percent(found.share_within_60_s),
        percent(found.share),
        percent(found.acknowledged),
        f"{found.convicted:,}",
        *("never" if ms is None else f"{ms:,.0f}" for ms in times),
        f"{found.messages:,}",
        f"{found.bytes >> 10:,}",
    ]
