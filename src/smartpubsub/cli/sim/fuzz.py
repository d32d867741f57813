"""smartpubsub sim fuzz."""

import click

from smartpubsub.cli.commands import FAILURE
from smartpubsub.cli.main import INTERRUPTED
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.cli.protocol_types import ProtocolName
from smartpubsub.cli.sim.options import adversary_option, resilience_option
from smartpubsub.cli.sim.progress import ChangingLine
from smartpubsub.cli.sim.text import count_lines, violation_lines
from smartpubsub.cli.sim.values import SECONDS_MAX, FiniteRange
from smartpubsub.protocols.registry import protocol_names
from smartpubsub.sim.adversaries.kinds import Adversary
from smartpubsub.sim.experiments import fuzz as fuzzing
from smartpubsub.sim.experiments.fuzz import Failure, Report


@click.command()
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="The number of worlds to try.",
)
@click.option(
    "--time",
    "time_s_max",
    type=FiniteRange(0, SECONDS_MAX),
    help="Stop after N seconds, even if there are runs left.",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Seed of the first world; the others have the next numbers.",
)
@click.option(
    "--protocol",
    "protocols",
    multiple=True,
    type=ProtocolName(),
    help="A protocol to run; may be repeated.  [default: all]",
)
@click.option(
    "--check-every",
    "check_stride",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Check the state of each node after every so many inputs that it handles; 0 for never.",
)
@adversary_option
@resilience_option
@json_option
@click.pass_context
def fuzz(
    context: click.Context,
    /,
    *,
    runs: int,
    time_s_max: float | None,
    seed: int,
    protocols: tuple[str, ...],
    check_stride: int,
    adversary: tuple[Adversary, ...],
    resilience: str,
    as_json: bool,
) -> None:
    """Search for violations in random worlds.

    Draws networks that delay, lose, repeat and reorder messages, nodes that crash, pause, are cut
    off and join, settings, and workloads, and checks the invariants in each, the state of every
    node after each input included. In some worlds messages are encoded and decoded as on a real
    connection. Prints the command that reproduces each violation. The exit code is 1 if there is
    one.

    \b
    Examples:
      smartpubsub sim fuzz
      smartpubsub sim fuzz --time 600 --runs 100000 --protocol gossipsub
      smartpubsub sim fuzz --runs 1000 --seed 5000 --json
    """
    known_failures = 0

    def tell(report: Report) -> None:
        nonlocal known_failures
        for failure in report.failures[known_failures:]:
            line.clear()
            show(failure)
        known_failures = len(report.failures)
        if line.is_due:
            line.show(f"{report.runs:,} of {runs:,} runs, {known_failures:,} with violations")

    with ChangingLine() as line:
        report = fuzzing.fuzz(
            seed,
            runs,
            protocols or protocol_names(),
            adversaries=adversary,
            resilience=resilience,
            time_s_max=time_s_max,
            check_stride=check_stride,
            on_progress=tell,
        )
    if as_json:
        print_json(report.document())
    else:
        click.echo(
            f"{report.runs:,} runs from seed {seed} in {report.wall_s:,.1f} s:"
            f" {len(report.failures):,} with violations"
        )
        click.echo("\n".join(count_lines(report.counts.judged, report.counts.excused)))
    if report.was_interrupted:
        context.exit(INTERRUPTED)
    if report.failures:
        context.exit(FAILURE)


def show(failure: Failure) -> None:
    """Print a violation and the command that reproduces it."""
    lines = [f"seed {failure.seed}, {failure.protocol}", *violation_lines(failure.violations)]
    click.echo("\n".join([*lines, f"again: {failure.command}"]), err=True)
