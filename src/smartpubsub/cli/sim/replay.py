"""smartpubsub sim replay."""

from contextlib import suppress

import click

from smartpubsub.cli.commands import FAILURE
from smartpubsub.cli.main import INTERRUPTED
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.cli.sim.options import check_option, sim_options
from smartpubsub.cli.sim.progress import StderrProgress
from smartpubsub.cli.sim.protocols import note_what_is_ignored, protocol_option, variant_option
from smartpubsub.cli.sim.text import table, violation_line
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.experiments.replay import SeenEnoughError, UntilSeen, Window, first_violation
from smartpubsub.sim.judging import result as results
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.traces.trace import Row, Trace
from smartpubsub.sim.traces.trace_files import record_of
from smartpubsub.workloads.actions import Workload


@click.command()
@protocol_option
@variant_option
@sim_options
@check_option
@click.option(
    "--before",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="The number of trace rows to show up to the violation.",
)
@click.option(
    "--after",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="The number of trace rows to show after it.",
)
@json_option
@click.pass_context
def replay(
    context: click.Context,
    /,
    options: SimOptions,
    *,
    protocol: str,
    variant: str,
    checks_invariants: bool,
    before: int,
    after: int,
    as_json: bool,
) -> None:
    """Show the events around the first violation of a run.

    Takes the options of `sim run`. Runs twice: to find the first violation, and to collect the
    trace rows around it that concern the same node or event. The exit code is 1 if there is a
    violation.

    \b
    Examples:
      smartpubsub sim replay --protocol gossipsub --seed 7 --loss 0.3
      smartpubsub sim replay --protocol floodsub --workload my.jsonl --before 100 --json
    """
    note_what_is_ignored(context, protocol)
    workload = options.load([protocol])
    with StderrProgress() as progress:
        experiment = options.experiment(
            protocol, variant, workload, progress=progress, checks_invariants=checks_invariants
        )
        result = results.run(experiment, options.scenario_name)
    if experiment.was_interrupted:
        context.exit(INTERRUPTED)
    violation = first_violation(result.violations)
    rows: list[Row] = []
    if violation:
        window = Window(violation, before, after)
        watch(options, protocol, variant, workload, violation, window)
        rows = window.rows()
    if as_json:
        print_json(
            {
                "violation": violation.document() if violation else None,
                "violations": len(result.violations),
                "rows": [record_of(row) for row in rows],
            }
        )
    else:
        click.echo(text(violation, rows, len(result.violations)))
    if violation:
        context.exit(FAILURE)


def watch(
    options: SimOptions,
    protocol: str,
    variant: str,
    workload: Workload,
    violation: Violation,
    window: Window,
) -> None:
    """Run until a violation has happened, and let a window see the trace."""
    trace = Trace(window)
    with StderrProgress("again, ") as progress, suppress(SeenEnoughError):
        options.experiment(
            protocol, variant, workload, trace=trace, progress=UntilSeen(violation, progress)
        ).run()
    trace.flush()


def text(violation: Violation | None, rows: list[Row], violation_count: int) -> str:
    """The result as text."""
    if violation is None:
        return "no violation: all invariants held"
    head = ("", "s", "what", "node", "peer", "kind", "size", "event", "hops", "", "subscription")
    others = f"\n({violation_count - 1:,} more in this run)" if violation_count > 1 else ""
    lines = [_cells(row, violation) for row in rows]
    return f"{violation_line(violation)}{others}\n\n{table(head, lines, left=len(head))}"


def _cells(row: Row, violation: Violation) -> tuple[str, ...]:
    record = record_of(row)
    is_moment = row.at_us == violation.at_us and row.node == violation.node
    return (
        ">" if is_moment else "",
        f"{row.at_us / SECOND:.6f}",
        *(str(record.get(name, "")) for name in Row._fields[1:]),
    )
