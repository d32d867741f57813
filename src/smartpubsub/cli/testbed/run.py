"""smartpubsub testbed run."""

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import click

from smartpubsub.cli.commands import FAILURE
from smartpubsub.cli.main import INTERRUPTED
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.cli.sim.options import sim_options
from smartpubsub.cli.sim.page_option import page_option, shown, stay
from smartpubsub.cli.sim.progress import StderrProgress
from smartpubsub.cli.sim.protocols import (
    note_what_is_ignored,
    note_what_is_instead,
    protocol_option,
    variant_option,
)
from smartpubsub.cli.sim.trace_options import trace_options
from smartpubsub.cli.testbed.text import result_text
from smartpubsub.sim.adversaries.kinds import SYBIL
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.judging.result import Result
from smartpubsub.sim.traces.trace import Trace, sink_of
from smartpubsub.sim.traces.trace_files import TraceFolder
from smartpubsub.testbed import result as results
from smartpubsub.testbed.identities import peer_of
from smartpubsub.testbed.run import Layout, RealRun

NODES_MAX = 500
"""More nodes, each with its connections, overload a machine."""
WORKERS_MAX = 64
REAL_KINDS = ("drop", "drop-half", "delay", "forge-ack", "sybil")
"""The adversaries that only need a core of their own."""


@click.command()
@protocol_option
@variant_option
@sim_options
@click.option(
    "--workers",
    type=click.IntRange(1, WORKERS_MAX),
    help="The number of processes for nodes that do not crash.  [default: one per core]",
)
@click.option("--isolate", is_flag=True, help="Give each node its own process.")
@click.option(
    "--simulate/--no-simulate",
    default=True,
    show_default=True,
    help="Whether to run the same experiment in the simulator afterwards, to compare.",
)
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
    workers: int | None,
    isolate: bool,
    simulate: bool,
    folder: Path | None,
    trace_format: str,
    page_port: int | None,
    as_json: bool,
) -> None:
    """Run a protocol on real nodes.

    Starts nodes in a few processes on this machine, connects them by TCP with the given latency,
    loss and bandwidth, runs a scenario or a workload file, and compares the deliveries with the
    expected ones. Nodes crash by being killed. The exit code is 1 if an invariant was violated, and
    130 after Ctrl-C, which ends the run early.

    \b
    Examples:
      smartpubsub testbed run --protocol scoutsubs --nodes 20
      smartpubsub testbed run --protocol scoutsubs --scenario fault --crash mid --json
      smartpubsub testbed run --protocol gossipsub --workload my.jsonl --isolate --trace traces
      smartpubsub testbed run --protocol scoutsubs --isolate --page 8090
      smartpubsub testbed run --protocol scoutsubs --resilience audited --adversary drop:0.2
    """
    for adversary in options.adversary:
        if adversary.kind not in REAL_KINDS:
            raise click.BadParameter(
                f"{adversary.kind} is in the simulator only; on real nodes there are"
                f" {', '.join(REAL_KINDS)}",
                param_hint="--adversary",
            )
        if adversary.kind == SYBIL and adversary.option:
            raise click.BadParameter(
                f"{adversary}: on real nodes all nodes join before the first call",
                param_hint="--adversary",
            )
    note_what_is_ignored(context, protocol)
    note_what_is_instead(protocol, options)
    layout = Layout(workers=workers or os.cpu_count() or 1, isolate=isolate)
    workload = options.load([protocol], peer_of)
    chosen = options.run_options(protocol, variant, workload)
    if chosen.nodes > NODES_MAX:
        raise click.BadParameter(
            f"{chosen.nodes:,} real nodes are too many; at most {NODES_MAX} are allowed,"
            " and more in the simulator",
            param_hint="--nodes",
        )
    chosen = replace(chosen, peers=options.peers(chosen.nodes, peer_of))
    faults = options.fault_plan(workload, chosen.nodes)
    with ExitStack() as stack:
        title = f"{protocol}, real nodes"
        page = shown(page_port, title, chosen.nodes, is_live=True, can_kill=isolate)
        scene = stack.enter_context(page)
        sink = stack.enter_context(TraceFolder(folder, trace_format)) if folder else None
        trace = Trace(sink_of(sink, scene))
        progress = stack.enter_context(StderrProgress("real, ", passed="passed", tells_stages=True))
        real = RealRun(
            chosen,
            workload,
            faults,
            layout=layout,
            trace=trace,
            progress=progress,
            kills=None if scene is None else scene.kills,
        )
        progress = stack.enter_context(StderrProgress("simulated, ", tells_stages=True))
        twin = Experiment(chosen, workload, faults, progress=progress) if simulate else None
        try:
            result = results.run(real, options.scenario_name, twin)
        finally:
            trace.flush()
        if as_json:
            print_json(result.document())
        else:
            click.echo(result_text(result))
        stay(scene)
    _exit(context, result)


def _exit(context: click.Context, result: Result) -> None:
    if result.experiment.was_interrupted:
        context.exit(INTERRUPTED)
    if result.violations:
        context.exit(FAILURE)
