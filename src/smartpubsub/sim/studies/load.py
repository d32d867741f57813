"""How evenly the work is spread over the nodes when few names have most of it all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from smartpubsub.protocols.scoutsubs.settings import Mapping, ScoutSettings
from smartpubsub.sim.experiment import Experiment
from smartpubsub.sim.inside import all_scoutsubs, filters_kept
from smartpubsub.sim.running import RunOptions
from smartpubsub.sim.spread import spread
from smartpubsub.sim.stacks import StackOptions
from smartpubsub.sim.studies.observed import Watch, completed, nobody
from smartpubsub.workloads import scenario

SCENARIO = "power-law"
FAN_OUTS = (0, 16, ScoutSettings().fan_out_max)
"""How many children a node takes in a tree: any number, some, as many as usual."""


@dataclass(frozen=True, kw_only=True)
class Skew:
    """How one thing is spread over nodes."""

    mean: float
    p99_over_mean: float
    max_over_mean: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Skew:
        """The skew of a figure of all nodes."""
        found = spread(values, "mean", "p99", "max")
        mean = found["mean"] or 1.0
        return cls(
            mean=found["mean"],
            p99_over_mean=round(found["p99"] / mean, 3),
            max_over_mean=round(found["max"] / mean, 3),
        )


@dataclass(frozen=True, kw_only=True)
class Load:
    """The load of the nodes under one mapping of predicates to attributes and one fan-out."""

    mapping: str
    fan_out_max: int
    """0 for any number of children."""
    messages: Skew
    bytes: Skew
    filters: Skew
    coverage: float
    violations: int


def study(nodes: int, seed: int, watch: Watch = nobody) -> list[Load]:
    """Run the same workload with every way to spread it."""
    workload = scenario(SCENARIO, keys=range(nodes), seed=seed)
    found = []
    for mapping, fan_out_max in product(Mapping, FAN_OUTS):
        stack = StackOptions(mapping=mapping, overrides={"fan_out_max": fan_out_max})
        options = RunOptions(protocol="scoutsubs", stack=stack, nodes=nodes, seed=seed)
        with watch(f"{mapping.value}, fan-out {fan_out_max or 'any'}, ") as progress:
            experiment = Experiment(options, workload, progress=progress)
            found.append(_load(experiment))
    return found


def _load(experiment: Experiment) -> Load:
    result = completed(experiment, SCENARIO)
    traffic = experiment.traffic()
    return Load(
        mapping=experiment.options.stack.mapping.value,
        fan_out_max=experiment.options.stack.scout_settings.fan_out_max,
        messages=Skew.of([node.sent for node in traffic]),
        bytes=Skew.of([node.sent_bytes for node in traffic]),
        filters=Skew.of([filters_kept(node) for node in all_scoutsubs(experiment)]),
        coverage=result.verdict.coverage_injected,
        violations=len(result.violations),
    )
