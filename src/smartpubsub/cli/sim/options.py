"""The options of all commands that run an experiment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

from smartpubsub.cli.sim.values import AdversaryType, ChurnType, CutType, FiniteRange
from smartpubsub.protocols.spec import DEFAULT_RESILIENCE, RESILIENCES
from smartpubsub.sim.adversaries.kinds import KINDS
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

SIM_BITS_MAX = 12
"""The highest proof of work: the simulator has to make the ids of all honest nodes."""

adversary_option = click.option(
    "--adversary",
    type=AdversaryType(),
    multiple=True,
    help="A SHARE of the nodes lies; may be repeated. Publishers stay honest, unless all nodes"
    " publish. The result counts honest nodes only. KIND is one of: "
    + "; ".join(f"{kind}, which {text}" for kind, text in KINDS.items())
    + ". The number after sybil is a count for each attribute.",
)

resilience_option = click.option(
    "--resilience",
    type=click.Choice(RESILIENCES),
    default=DEFAULT_RESILIENCE,
    show_default=True,
    help="What the nodes withstand: nodes that stop; with audited also nodes that drop events;"
    " with byzantine, in ScoutSubs, more of them at a higher cost.",
)

_SIM_OPTIONS = (
    click.option(
        "--scenario",
        type=click.Choice([*SCENARIOS]),
        help=f"The scenario to run.  [default: {SCENARIO}]",
    ),
    click.option(
        "--events",
        type=click.IntRange(1, COUNT_MAX),
        help="The number of events, instead of the scenario's.",
    ),
    click.option(
        "--publishers",
        type=click.IntRange(1, COUNT_MAX),
        help="The number of nodes that publish, instead of the scenario's.",
    ),
    click.option(
        "--workload",
        type=click.Path(path_type=Path),
        help="A workload file, instead of a scenario.",
    ),
    click.option(
        "--nodes",
        type=click.IntRange(1, NODES_MAX),
        help=f"The number of nodes.  [default: {NODES}, or as many as the file names]",
    ),
    click.option(
        "--seed", type=int, default=1, show_default=True, help="Seed of the simulated world."
    ),
    click.option(
        "--faults",
        type=click.IntRange(min=0),
        help="The number of nodes that crash and do not return.  [default: --backups in the"
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
        "--refuse",
        is_flag=True,
        help="The machines of crashed nodes refuse connections, as when only a process has ended;"
        " without it they are silent, as when they are switched off.",
    ),
    click.option(
        "--churn",
        type=ChurnType(),
        help="Nodes come and go during the workload: they are up for UP seconds and down for DOWN"
        " seconds on average. SHARE is the share of nodes that do this, by default all. Publishers"
        " stay up, unless all nodes publish; then a node that is down publishes nothing.",
    ),
    click.option(
        "--cut",
        type=CutType(),
        help="AT seconds after the workload begins, a SHARE of the nodes (default: half) is cut off"
        " from the others FOR that many seconds.",
    ),
    click.option("--ordered", is_flag=True, help="Create ordered topics."),
    click.option(
        "--backups",
        type=click.IntRange(0, 100),
        default=2,
        show_default=True,
        help="The number of backups (f) of a rendezvous.",
    ),
    resilience_option,
    click.option(
        "--latency-ms",
        type=FiniteRange(0, MS_MAX),
        default=10.0,
        show_default=True,
        help="The one-way latency of a link.",
    ),
    click.option(
        "--jitter-ms",
        type=FiniteRange(0, MS_MAX),
        default=0.0,
        show_default=True,
        help="The maximum random addition to the latency.",
    ),
    click.option(
        "--loss",
        type=FiniteRange(0, 1),
        default=0.0,
        show_default=True,
        help="The share of messages that are lost.",
    ),
    click.option(
        "--bandwidth-bytes",
        type=click.IntRange(1, 1 << 50),
        default=1 << 20,
        show_default=True,
        help="The number of bytes that a node can send per second.",
    ),
    click.option(
        "--regions",
        type=click.IntRange(0, NODES_MAX),
        default=0,
        help="Spread the nodes over R regions, with a latency of 5 ms inside and 80 ms across,"
        " instead of --latency-ms.",
    ),
    adversary_option,
    click.option(
        "--id-work-bits",
        type=click.IntRange(0, SIM_BITS_MAX),
        default=0,
        show_default=True,
        help="The proof of work that peer ids need to have a role. Honest nodes have it. Minted ids"
        " cost as many tries as without it, so nearly all of them lack it.",
    ),
    click.option(
        "--peers-per-prefix",
        type=click.IntRange(0, NODES_MAX),
        default=0,
        help="How many peers with the same address prefix may have a role for a name; 0 for any"
        " number. All nodes with minted ids have one prefix, and honest nodes have different ones.",
    ),
)


def sim_options(command: Command) -> Command:
    """Give a command all options of `SimOptions`, as its first argument."""

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
