"""What can be chosen about an experiment, for all commands that run one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import Any, Literal

import click

from smartpubsub.cli.sim_values import Churning, ChurnType, FiniteRange
from smartpubsub.kademlia.keys import key_of
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.sim.crowd import peer_id
from smartpubsub.sim.experiment import Experiment, FaultPlan
from smartpubsub.sim.faults import Churn, Fault
from smartpubsub.sim.network import NetworkOptions
from smartpubsub.sim.pace import LARGE_NETWORK_NODES, pace_us
from smartpubsub.sim.running import Progress, RunOptions
from smartpubsub.sim.stacks import StackOptions
from smartpubsub.sim.streams import stream
from smartpubsub.sim.trace import Trace
from smartpubsub.workloads import SCENARIOS, ScenarioOptions, read_workload, scenario
from smartpubsub.workloads.actions import CrashNode, Publish, Workload
from smartpubsub.workloads.crashes import with_crashes

NODES = 60
NODES_MAX = 1_000_000
COUNT_MAX = 10_000_000
MS_MAX = 86_400_000.0
SCENARIO = "normal"
FROM_FILE = "workload"
"""What a result calls the scenario of a workload file."""
PACED_SCENARIOS = {"normal": 100_000, "event-burst": 1}
"""Those that large networks are given time for, and how fast they are at most, in microseconds."""

Command = Callable[..., None]


@dataclass(frozen=True, kw_only=True)
class SimOptions:
    """A world, a workload and faults; which protocol runs in it is another question."""

    scenario: str | None
    events: int | None
    publishers: int | None
    workload: Path | None
    nodes: int | None
    seed: int
    faults: int | None
    crash: Literal["before", "mid"]
    churn: Churning | None
    ordered: bool
    backups: int
    latency_ms: float
    jitter_ms: float
    loss: float
    bandwidth_bytes: int

    @property
    def scenario_name(self) -> str:
        """What results call it."""
        return FROM_FILE if self.workload else self.scenario or SCENARIO

    @property
    def network(self) -> NetworkOptions:
        """What the network is like."""
        return NetworkOptions(
            latency_us=round(self.latency_ms * 1000),
            jitter_us=round(self.jitter_ms * 1000),
            loss=self.loss,
            bandwidth_bytes_per_s=self.bandwidth_bytes,
        )

    @property
    def crash_count(self) -> int:
        """How many nodes crash for good."""
        if self.faults is None:
            return self.backups if self.scenario_name == "fault" else 0
        return self.faults

    def check(self) -> None:
        """Complain about options that contradict each other."""
        if not self.workload:
            return
        for name in ("scenario", "events", "publishers"):
            if getattr(self, name) is not None:
                raise click.UsageError(f"--{name} has no meaning beside --workload; leave one out")

    def load(self, protocols: Sequence[str]) -> Workload:
        """The workload; in a large network one that all of these protocols can keep up with."""
        if self.workload:
            return self._load_file(self.workload)
        nodes = NODES if self.nodes is None else self.nodes
        return scenario(
            self.scenario_name,
            keys=self._keys(nodes),
            seed=self.seed,
            options=ScenarioOptions(
                events=self.events,
                publishers=self.publishers,
                faults=self.crash_count,
                crash=self.crash,
                pace_us=self._pace_us(nodes, protocols),
                ordered=self.ordered,
            ),
        )

    def experiment(
        self,
        protocol: str,
        variant: str,
        workload: Workload,
        *,
        trace: Trace | None = None,
        progress: Progress | None = None,
    ) -> Experiment:
        """A run of a protocol with the workload that was loaded."""
        options = RunOptions(
            protocol=protocol,
            stack=StackOptions(variant=variant, backups=self.backups),
            nodes=len(workload.names) if self.nodes is None else self.nodes,
            seed=self.seed,
            network=self.network,
        )
        faults = self._fault_plan(workload, options.nodes)
        return Experiment(options, workload, faults, trace=trace, progress=progress)

    def _load_file(self, path: Path) -> Workload:
        workload = read_workload(path)
        names = len(workload.names)
        nodes = names if self.nodes is None else self.nodes
        if nodes < names:
            raise click.BadParameter(
                f"{path} has {names} nodes, so there cannot be {nodes}; give {names} or more",
                param_hint="--nodes",
            )
        if not self.crash_count:
            return workload
        phases = with_crashes(
            workload.phases,
            self._keys(nodes),
            faults=self.crash_count,
            crash=self.crash,
            rng=stream(self.seed, "crashes"),
        )
        return replace(workload, phases=tuple(map(tuple, phases)))

    def _keys(self, nodes: int) -> list[int]:
        return [key_of(peer_id(self.seed, number)) for number in range(nodes)]

    def _pace_us(self, nodes: int, protocols: Sequence[str]) -> int | None:
        fastest_us = PACED_SCENARIOS.get(self.scenario_name)
        if nodes < LARGE_NETWORK_NODES or fastest_us is None:
            return None
        own = scenario(
            self.scenario_name,
            keys=range(nodes),
            seed=self.seed,
            options=ScenarioOptions(events=self.events, publishers=self.publishers),
        )
        publishers = len(_nodes_that(own, Publish))
        paces = [pace_us(protocol, nodes, publishers, self.network) for protocol in protocols]
        return max(fastest_us, *paces)

    def _fault_plan(self, workload: Workload, nodes: int) -> FaultPlan:
        def plan(began_us: int) -> Iterator[Fault]:
            if self.churn:
                yield Churn(
                    nodes=self._churning_nodes(self.churn, workload, nodes),
                    at_us=began_us,
                    until_us=began_us + sum(phase[-1].at_us for phase in workload.phases if phase),
                    up_us_mean=round(self.churn.up_s * SECOND),
                    down_us_mean=round(self.churn.down_s * SECOND),
                    seed=self.seed,
                )

        return plan

    def _churning_nodes(self, churn: Churning, workload: Workload, nodes: int) -> tuple[int, ...]:
        # Publishers stay so that every event counts, and who is to crash for good does not return.
        busy = _nodes_that(workload, Publish, CrashNode)
        others = [node for node in range(nodes) if node not in busy]
        chosen = stream(self.seed, "churn").sample(others, round(churn.share * len(others)))
        return tuple(sorted(chosen))


def _nodes_that(workload: Workload, *kinds: type) -> dict[int, None]:
    return {a.node: None for phase in workload.phases for a in phase if isinstance(a, kinds)}


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
        " out; publishers stay.",
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
)


def sim_options(command: Command) -> Command:
    """Give a command all options of `SimOptions`, which it gets as its first argument."""

    @wraps(command)
    def gathered(**given: Any) -> None:
        options = SimOptions(**{field.name: given.pop(field.name) for field in fields(SimOptions)})
        options.check()
        command(options, **given)

    for option in reversed(_SIM_OPTIONS):
        gathered = option(gathered)
    return gathered
