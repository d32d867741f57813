"""Predicates of a small vocabulary, so that they often meet, cover each other and merge."""

import math

from hypothesis import settings
from hypothesis import strategies as st

from smartpubsub.predicates import Interval, Predicate
from smartpubsub.predicates.numbers import Exact, Number, number_from

REPEATABLE = settings(deadline=None, database=None, derandomize=True)

NAMES = ["surf", "price", "temp", "é", "a b/c"]
UNSEEN = "never-in-a-filter"

_COMMON = ["-1", "0", "1", "2", "2.5", "3", "10"]
_EXTREME = [
    "0.1",
    "0.1000000000000000000001",
    "0.1000000000000000000002",
    "5e-324",
    "3e-324",
    "1e-400",
    "-1e-400",
    "-5e-324",
    "1.7976931348623157e308",
    "1.7976931348623158e308",
    "-1.7976931348623157e308",
    "1e400",
    "-1e400",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "9223372036854776000",
    "36028797018963970",
    "123456789012345680000",
    "1" * 60,
]

_common: list[Number] = [number_from(text) for text in _COMMON]
_all: list[Number] = _common + [number_from(text) for text in _EXTREME]
_floats: list[Number] = [number for number in _all if isinstance(number, float)]

numbers = st.sampled_from(_common) | st.sampled_from(_all)
keys = st.integers(0, 30) | st.sampled_from([-1, -(2**63), 2**63 - 1, 2**32, -(2**32)])


def intervals(bounds: st.SearchStrategy[Number]) -> st.SearchStrategy[Interval]:
    def between(one: Number, other: Number) -> Interval:
        return Interval(one, other) if one <= other else Interval(other, one)

    return st.one_of(
        bounds.map(lambda number: Interval(number, number)),
        st.builds(between, bounds, bounds),
        bounds.map(lambda number: Interval(number, math.inf)),
        bounds.map(lambda number: Interval(-math.inf, number)),
        st.just(Interval(-math.inf, math.inf)),
    )


def predicates(
    names: list[str], values: st.SearchStrategy[Interval], *, size_max: int = 4
) -> st.SearchStrategy[Predicate]:
    attributes = st.dictionaries(
        st.sampled_from(names), st.none() | values, min_size=1, max_size=size_max
    )
    return attributes.map(Predicate.unchecked)


filters = predicates(NAMES, intervals(numbers))
events = st.one_of(
    predicates([*NAMES, UNSEEN], numbers.map(lambda number: Interval(number, number))),
    predicates([*NAMES, UNSEEN], intervals(numbers)),
)
float_events = predicates([*NAMES, UNSEEN], intervals(st.sampled_from(_floats)))


def is_exact(predicate: Predicate) -> bool:
    """Whether some bound is a number that no float stands for."""
    return any(
        isinstance(bound, Exact)
        for interval in predicate.attributes.values()
        for bound in interval or ()
    )
