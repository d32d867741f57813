"""The runs whose digests are kept: random worlds with faults, and each protocol's scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from smartpubsub.protocols.registry import spec_of
from smartpubsub.sim.experiments.options import Churning, Cutting, SimOptions
from smartpubsub.sim.experiments.random_worlds import random_world
from tests.golden.recording import Golden, recorded
from tests.protocols.fastdelivery.test_seeds import SEEDS as FASTDELIVERY_SEEDS
from tests.protocols.scoutsubs.test_seeds import LOSSY, QUIET, RELIABLE, UNRELIABLE

RANDOM_WORLDS = {
    "scoutsubs": (*RELIABLE, *LOSSY, *UNRELIABLE, *QUIET),
    "fastdelivery": (*FASTDELIVERY_SEEDS, *range(900, 924)),
    "pulsarcast": tuple(range(900, 932)),
    "floodsub": tuple(range(900, 904)),
    "gossipsub": tuple(range(900, 904)),
}

SCENARIOS = {
    "scoutsubs": (
        SimOptions(nodes=25, scenario="normal"),
        SimOptions(nodes=25, scenario="sub-burst"),
        SimOptions(nodes=25, scenario="event-burst"),
        SimOptions(nodes=25, scenario="fault", crash="mid"),
        SimOptions(nodes=25, scenario="power-law", events=60),
    ),
    "fastdelivery": (
        SimOptions(nodes=40, scenario="normal"),
        SimOptions(nodes=40, scenario="sub-burst"),
        SimOptions(nodes=40, scenario="event-burst", regions=3),
        SimOptions(nodes=40, scenario="fault", crash="mid"),
        SimOptions(nodes=25, scenario="normal", churn=Churning(20, 3, 0.3)),
        SimOptions(nodes=25, scenario="power-law", events=60, cut=Cutting(5, 20)),
    ),
    "pulsarcast": (
        SimOptions(nodes=25, scenario="reddit", events=300),
        SimOptions(nodes=25, scenario="reddit", events=300, ordered=True),
        SimOptions(nodes=25, scenario="fault", events=200, crash="mid"),
        SimOptions(nodes=25, scenario="reddit", events=150, churn=Churning(20, 3, 0.3)),
        SimOptions(nodes=25, scenario="reddit", events=150, ordered=True, cut=Cutting(5, 20)),
    ),
    "floodsub": (SimOptions(nodes=12, scenario="normal"),),
    "gossipsub": (SimOptions(nodes=12, scenario="normal"), SimOptions(nodes=12, loss=0.05)),
}


class Case(NamedTuple):
    """One run, under a name that says how to have it again."""

    name: str
    protocol: str
    seed: int = 0
    """Of a random world."""
    options: SimOptions | None = None
    """Of a scenario."""
    variant: str = ""

    def record(self) -> Golden:
        """Run it and digest it."""
        if self.options is None:
            world = random_world(self.seed, self.protocol)
            return recorded(world.options, world.workload, world.faults)
        workload = self.options.load([self.protocol])
        options = self.options.run_options(self.protocol, self.variant, workload)
        return recorded(options, workload, self.options.fault_plan(workload, options.nodes))


def cases(protocols: tuple[str, ...] = tuple(RANDOM_WORLDS)) -> Iterator[Case]:
    """All runs of some protocols."""
    for protocol in protocols:
        for seed in RANDOM_WORLDS[protocol]:
            yield Case(f"{protocol} world {seed}", protocol, seed)
        variants = spec_of(protocol).variants or ("",)
        for options in SCENARIOS[protocol]:
            for variant in variants:
                command = options.command(protocol, variant)
                yield Case(command.removeprefix("smartpubsub "), protocol, 0, options, variant)
