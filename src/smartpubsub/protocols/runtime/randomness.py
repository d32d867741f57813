"""Random generators of components, and times that differ from node to node."""

from __future__ import annotations

from random import Random


def branch_of(rng: Random, name: str) -> Random:
    """A generator for a component, made without a draw from the given one.

    So a new component does not change what the others draw, and a seed keeps giving the same world.
    """
    copy = Random()
    copy.setstate(rng.getstate())
    return Random(f"{copy.getrandbits(64)}/{name}")


def jittered(interval_us: int, rng: Random) -> int:
    """An interval that is up to a fifth shorter or longer, so that nodes do not act in step."""
    return interval_us * rng.randint(80, 120) // 100
