"""Thousands of filters that crowd one part of an index, the same for the same seed."""

import math
from collections.abc import Callable
from random import Random

from smartpubsub.predicates import Interval, Predicate

Make = Callable[[Random], Predicate]


def _predicate(topics: list[str], ranges: dict[str, Interval]) -> Predicate:
    attributes: dict[str, Interval | None] = {**dict.fromkeys(topics), **ranges}
    return Predicate.unchecked(attributes)


def interval(rng: Random) -> Interval:
    """Of few different values, or of many, with open sides and single points."""
    digits = rng.choice([0, 4])
    lo, hi = sorted(round(rng.uniform(0, 12), digits) for _ in range(2))
    shape = rng.random()
    if shape < 0.1:
        return Interval(-math.inf, hi)
    if shape < 0.2:
        return Interval(lo, math.inf)
    return Interval(lo, lo) if shape < 0.3 else Interval(lo, hi)


def ranges(rng: Random, least: int, most: int, names: int = 6) -> dict[str, Interval]:
    chosen = rng.sample(range(names), rng.randint(least, most))
    return {f"r{number}": interval(rng) for number in chosen}


def one_topic_and_ranges(rng: Random) -> Predicate:
    return _predicate(["t0"], ranges(rng, 0, 4))


def few_topics(rng: Random) -> Predicate:
    topics = rng.sample([f"t{number}" for number in range(5)], rng.randint(2, 5))
    return _predicate(topics, ranges(rng, 0, 3) if rng.random() < 0.5 else {})


def ranges_only(rng: Random) -> Predicate:
    return _predicate([], ranges(rng, 1, 4))


def one_range(rng: Random) -> Predicate:
    return _predicate([], {"r0": interval(rng)})


def equal_lower_bounds(rng: Random) -> Predicate:
    return _predicate([], {"r0": Interval(3.0, 3.0 + rng.randrange(9))})


def identical_ranges(rng: Random) -> Predicate:
    return _predicate(rng.choice([[], ["t0"]]), {"r0": Interval(3.0, 4.0)})


def identical_pairs(rng: Random) -> Predicate:
    both = {"r0": Interval(3.0, 4.0), "r1": Interval(0.0, 9.0)}
    return _predicate(rng.choice([[], ["t0"]]), both)


def narrow_beside_wide_ranges(rng: Random) -> Predicate:
    lo = rng.uniform(0, 12)
    return _predicate(
        [],
        {
            "r0": Interval(lo, lo + rng.choice([0.0, 0.1, 0.5])),
            "r1": Interval(0.0, float(rng.randint(6, 12))),
            "r2": Interval(float(rng.randint(0, 6)), 12.0),
        },
    )


def open_sides(rng: Random) -> Predicate:
    return _predicate(
        [],
        {
            "r0": rng.choice(
                [
                    Interval(-math.inf, float(rng.randrange(12))),
                    Interval(float(rng.randrange(12)), math.inf),
                    Interval(-math.inf, math.inf),
                ]
            )
        },
    )


def extreme_bounds(rng: Random) -> Predicate:
    extremes = [-1.7976931348623157e308, -5e-324, 0.0, 5e-324, 1.0, 1.7976931348623157e308]
    lo, hi = sorted(rng.choices(extremes, k=2))
    return _predicate(rng.choice([[], ["t0"]]), {"r0": Interval(lo, hi), **ranges(rng, 0, 0)})


def a_topic_that_is_a_range_elsewhere(rng: Random) -> Predicate:
    names = rng.sample([f"r{number}" for number in range(6)], rng.randint(1, 4))
    return Predicate.unchecked({name: rng.choice([None, interval(rng)]) for name in names})


def many_topics(rng: Random) -> Predicate:
    topics = rng.sample([f"t{number}" for number in range(60)], rng.randint(1, 4))
    return _predicate(topics, ranges(rng, 0, 3))


CROWDS: list[Make] = [
    one_topic_and_ranges,
    ranges_only,
    one_range,
    equal_lower_bounds,
    identical_ranges,
    identical_pairs,
    narrow_beside_wide_ranges,
    open_sides,
    extreme_bounds,
    a_topic_that_is_a_range_elsewhere,
    many_topics,
]


def event(rng: Random) -> Predicate:
    """An event that knows most of the names, with points or narrow intervals."""
    attributes: dict[str, Interval | None] = dict.fromkeys(
        rng.sample([f"t{number}" for number in range(8)], rng.randint(0, 6))
    )
    for number in rng.sample(range(6), rng.randint(1, 6)):
        lo = rng.choice([float(rng.randrange(12)), rng.uniform(-1, 13), 0.0, 5e-324])
        hi = lo + rng.choice([0.0, 0.0, 0.5, 5.0])
        attributes[f"r{number}"] = Interval(lo, hi)
    if rng.random() < 0.2:
        attributes["never-in-a-filter"] = None
    return Predicate.unchecked(attributes)
