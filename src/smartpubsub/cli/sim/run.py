"""smartpubsub sim run."""

from contextlib import ExitStack
from pathlib import Path

import click

from smartpubsub.cli.again import same_again
from smartpubsub.cli.commands import FAILURE
from smartpubsub.cli.main import INTERRUPTED
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.cli.sim.options import check_option, sim_options
from smartpubsub.cli.sim.page_option import page_option, shown, stay
from smartpubsub.cli.sim.progress import StderrProgress
from smartpubsub.cli.sim.protocols import (
    note_what_did_not_happen,
    note_what_is_ignored,
    note_what_is_instead,
    protocol_option,
    variant_option,
)
from smartpubsub.cli.sim.text import result_text
from smartpubsub.cli.sim.trace_options import trace_options
from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.judging import result as results
from smartpubsub.sim.judging.result import Result
from smartpubsub.sim.traces.trace import Sink, Trace, sink_of
from smartpubsub.sim.traces.trace_files import TraceFolder


@click.command()
@protocol_option
@variant_option
@sim_options
@check_option
@trace_options
@page_option
@json_option
@click.pass_context
def run(
    context: click.Context,
    /,
    options: SimOptions,
    *,
    protocol: str,
    variant: str,
    checks_invariants: bool,
    folder: Path | None,
    trace_format: str,
    page_port: int | None,
    as_json: bool,
) -> None:
    """Run a protocol in a simulated world.

    Builds a network, runs a scenario or a workload file in it, and compares the deliveries with the
    expected ones. The same options give the same result, byte for byte. The result counts
    how many cases the checkers judged and excused. The exit code is 1 if an invariant was violated,
    and 130 after Ctrl-C, which ends the run early.

    \b
    Examples:
      smartpubsub sim run --protocol floodsub
      smartpubsub sim run --protocol gossipsub --scenario event-burst --nodes 200 --json
      smartpubsub sim run --protocol gossipsub --workload my.jsonl --loss 0.01 --trace traces
      smartpubsub sim run --protocol floodsub --scenario reddit --events 1000 --churn 30:5:0.2
      smartpubsub sim run --protocol scoutsubs --page 8090
    """
    note_what_is_ignored(context, protocol)
    note_what_is_instead(protocol, options)
    workload = options.load([protocol])
    nodes = options.run_options(protocol, variant, workload).nodes if page_port is not None else 0
    with shown(page_port, f"{protocol}, simulated", nodes, is_live=False) as scene:
        result = run_one(
            options,
            protocol,
            variant,
            folder,
            trace_format,
            checks_invariants=checks_invariants,
            scene=scene,
        )
        note_what_did_not_happen(options, result)
        if as_json:
            print_json(result.document())
        else:
            click.echo(result_text(result))
        stay(scene)
    if result.experiment.was_interrupted:
        context.exit(INTERRUPTED)
    if result.violations:
        leave_out = ("folder", "trace_format", "as_json")
        command = same_again(context, "smartpubsub sim replay", leave_out)
        click.echo(f"to look at the first violation: {command}", err=True)
        context.exit(FAILURE)


def run_one(
    options: SimOptions,
    protocol: str,
    variant: str,
    folder: Path | None,
    trace_format: str,
    *,
    checks_invariants: bool,
    scene: Sink | None = None,
) -> Result:
    """Run an experiment, and write its trace if there is a folder for it."""
    workload = options.load([protocol])
    with ExitStack() as stack:
        sink = stack.enter_context(TraceFolder(folder, trace_format)) if folder else None
        trace = Trace(sink_of(sink, scene))
        progress = stack.enter_context(StderrProgress())
        experiment = options.experiment(
            protocol,
            variant,
            workload,
            trace=trace,
            progress=progress,
            checks_invariants=checks_invariants,
        )
        try:
            return results.run(experiment, options.scenario_name)
        finally:
            trace.flush()
