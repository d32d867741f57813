"""Worlds that chance has made, each with something that goes wrong, in which all promises hold."""

import pytest

from smartpubsub.sim.experiments.fuzz import violations_of
from smartpubsub.sim.experiments.random_worlds import random_world

SEEDS = (11, 19, 20, 53, 2031, 2110, 3097, 3107, 810079)
"""Clocks that show less than zero, lookups that miss the closest and newcomers once made boards go
unasked; in 3097 a helper delivered to itself what was not yet its turn; 810079 is long
enough for who is gone to lapse."""


def test_the_seeds_are_worth_running() -> None:
    """All kinds of fault occur, and networks that lose messages."""
    worlds = [random_world(seed, "fastdelivery") for seed in SEEDS]
    kinds = {type(fault).__name__ for world in worlds for fault in world.faults(0)}
    assert {"Crash", "Slow", "Skew"} <= kinds
    assert max(world.options.network.loss for world in worlds) > 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_happens_that_must_not(seed: int) -> None:
    assert violations_of(random_world(seed, "fastdelivery")) == []
