"""The options of all commands that run an experiment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

from smartpubsub.cli.sim.values import ChurnType, CutType, FiniteRange
from smartpubsub.sim.experiments.options import NODES, SCENARIO, OptionsError, SimOptions
from smartpubsub.workloads import SCENARIOS

NODES_MAX = 1_000_000
COUNT_MAX = 10_000_000
MS_MAX = 86_400_000.0

Command = Callable[..., None]

check_option = click.option(
    "--check",
    "checks_invariants",
    is_flag=True,
    help="Check the state of each node after every input that it handles, which takes time.",
)

_SIM_OPTIONS = (
    click.option(
        "--scenario",
        type=click.Choice([*SCENARIOS]),
        help=f"What happens.  [default: {SCENARIO}]",
    ),
    click.option(
        "--events",
        type=click.IntRange(1, COUNT_MAX),
        help="How many events there are, instead of as many as the scenario has.",
    ),
    click.option(
        "--publishers",
        type=click.IntRange(1, COUNT_MAX),
        help="How many nodes publish, instead of as many as in the scenario.",
    ),
    click.option(
        "--workload",
        type=click.Path(path_type=Path),
        help="A file that says what happens, instead of a scenario.",
    ),
    click.option(
        "--nodes",
        type=click.IntRange(1, NODES_MAX),
        help=f"How many nodes there are.  [default: {NODES}, or as many as the file names]",
    ),
    click.option(
        "--seed", type=int, default=1, show_default=True, help="Seed of the simulated world."
    ),
    click.option(
        "--faults",
        type=click.IntRange(min=0),
        help="How many nodes crash and do not return.  [default: as many as --backups in the"
        " scenario fault, otherwise 0]",
    ),
    click.option(
        "--crash",
        type=click.Choice(["before", "mid"]),
        default="before",
        show_default=True,
        help="Whether they crash before the first event or in the middle of the events.",
    ),
    click.option(
        "--churn",
        type=ChurnType(),
        help="Nodes come and go while the workload lasts: they are up for UP seconds and down for"
        " DOWN seconds in the mean. SHARE is the share of those nodes that do this, all if left"
        " out; publishers stay, unless all nodes publish: then who is down publishes nothing.",
    ),
    click.option(
        "--cut",
        type=CutType(),
        help="AT seconds after the workload begins a SHARE of the nodes, half of them if left out,"
        " is cut off from the others FOR so many seconds.",
    ),
    click.option("--ordered", is_flag=True, help="Let topics keep the order of their events."),
    click.option(
        "--backups",
        type=click.IntRange(0, 100),
        default=2,
        show_default=True,
        help="How many nodes keep a copy of what a rendezvous knows.",
    ),
    click.option(
        "--latency-ms",
        type=FiniteRange(0, MS_MAX),
        default=10.0,
        show_default=True,
        help="How long a message travels.",
    ),
    click.option(
        "--jitter-ms",
        type=FiniteRange(0, MS_MAX),
        default=0.0,
        show_default=True,
        help="The most that chance adds to it.",
    ),
    click.option(
        "--loss",
        type=FiniteRange(0, 1),
        default=0.0,
        show_default=True,
        help="The share of messages that get lost.",
    ),
    click.option(
        "--bandwidth-bytes",
        type=click.IntRange(1, 1 << 50),
        default=1 << 20,
        show_default=True,
        help="How many bytes a node can send in a second.",
    ),
    click.option(
        "--regions",
        type=click.IntRange(0, NODES_MAX),
        default=0,
        help="Spread the nodes over so many regions, with 5 ms from one node to another inside and"
        " 80 ms across, instead of --latency-ms.",
    ),
)


def sim_options(command: Command) -> Command:
    """Give a command all options of `SimOptions`, which it gets as its first argument."""

    @wraps(command)
    def gathered(**given: Any) -> None:
        options = SimOptions(**{field.name: given.pop(field.name) for field in fields(SimOptions)})
        try:
            options.check()
            command(options, **given)
        except OptionsError as error:
            raise click.UsageError(str(error)) from None

    for option in reversed(_SIM_OPTIONS):
        gathered = option(gathered)
    return gathered
