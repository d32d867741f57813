"""The distribution of load over nodes when few attributes have most of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from smartpubsub.protocols.scoutsubs.settings import Mapping, ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import SHARDS
from smartpubsub.protocols.spec import ProtocolOptions
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.inside import all_scoutsubs, filters_kept
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.sim.judging.spread import spread
from smartpubsub.sim.studies.observed import Watch, completed, unwatched
from smartpubsub.workloads import ScenarioOptions, scenario

SCENARIO = "power-law"
EVENTS_PER_NODE = 10
USUAL = ScoutSettings()


class Way(NamedTuple):
    """One way to distribute the load."""

    mapping: Mapping
    fan_out_max: int
    """How many children a node takes in a tree; 0 for any number."""
    hot_copies_per_s: int
    """The load from which an attribute is split over several keys; 0 for never."""

    @property
    def keys(self) -> int:
        """The number of keys of a hot attribute."""
        return SHARDS if self.hot_copies_per_s else 1


WAYS = (
    Way(Mapping.SHARED, 0, 0),
    Way(Mapping.SHARED, USUAL.fan_out_max, 0),
    Way(Mapping.SHARED, 0, USUAL.hot_copies_per_s),
    Way(Mapping.SHARED, USUAL.fan_out_max, USUAL.hot_copies_per_s),
    Way(Mapping.NEAREST, USUAL.fan_out_max, USUAL.hot_copies_per_s),
)
"""From none to all; nodes use the last but one."""


@dataclass(frozen=True, kw_only=True)
class Skew:
    """The distribution of one figure over nodes."""

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
    """The load of the nodes with one way to distribute it."""

    mapping: str
    fan_out_max: int
    """0 for any number of children."""
    keys: int
    """The number of keys of a hot attribute."""
    messages: Skew
    bytes: Skew
    filters: Skew
    coverage: float
    violations: int


def study(nodes: int, seed: int, watch: Watch = unwatched) -> list[Load]:
    """Run the same workload with every way to distribute it."""
    events = ScenarioOptions(events=EVENTS_PER_NODE * nodes)
    workload = scenario(SCENARIO, keys=range(nodes), seed=seed, options=events)
    found = []
    for way in WAYS:
        mapping, fan_out_max, hot = way
        overrides = {"mapping": mapping, "fan_out_max": fan_out_max, "hot_copies_per_s": hot}
        chosen = ProtocolOptions(overrides=overrides)
        options = RunOptions(protocol="scoutsubs", protocol_options=chosen, nodes=nodes, seed=seed)
        with watch(
            f"{mapping.value}, fan-out {fan_out_max or 'any'}, keys {way.keys}, "
        ) as progress:
            experiment = Experiment(options, workload, progress=progress)
            found.append(_load(experiment, way))
    return found


def _load(experiment: Experiment, way: Way) -> Load:
    result = completed(experiment, SCENARIO)
    traffic = experiment.traffic()
    return Load(
        mapping=way.mapping.value,
        fan_out_max=way.fan_out_max,
        keys=way.keys,
        messages=Skew.of([node.sent for node in traffic]),
        bytes=Skew.of([node.sent_bytes for node in traffic]),
        filters=Skew.of([filters_kept(node) for node in all_scoutsubs(experiment)]),
        coverage=result.verdict.coverage_injected,
        violations=len(result.violations),
    )
