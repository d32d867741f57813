"""Numbers of both kinds are in one order, and it is the order of the fractions they stand for."""

import math
import operator
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smartpubsub.predicates.numbers import Exact, parse_number
from tests.predicates.said import value
from tests.predicates.strategies import long_numerals, neighbours, numerals

Compare: TypeAlias = Callable[[Any, Any], bool]

COMPARISONS: list[Compare] = [
    operator.lt,
    operator.le,
    operator.eq,
    operator.ne,
    operator.ge,
    operator.gt,
]
PAIRS = neighbours() | st.tuples(numerals(), numerals()) | st.tuples(long_numerals(), numerals())


@pytest.mark.parametrize("compare", COMPARISONS)
@given(pair=PAIRS)
@example(pair=("9007199254740992", "9007199254740993"))
@example(pair=("9007199254740993", "9007199254740994"))
@example(pair=("9007199254740993", "9007199254740993.0"))
@example(pair=("9007199254740993", "9007199254740993.5"))
@example(pair=("1e23", "99999999999999991611392"))
@example(pair=("0", "-1e-400"))
@example(pair=("1.7976931348623157e308", "1.7976931348623158e308"))
@example(pair=("1e400", "1e401"))
def test_numbers_compare_as_fractions(compare: Compare, pair: tuple[str, str]) -> None:
    (one, other), (a, b) = pair, map(Fraction, pair)

    assert compare(parse_number(one), parse_number(other)) == compare(a, b)
    assert compare(parse_number(other), parse_number(one)) == compare(b, a)


@pytest.mark.parametrize("compare", COMPARISONS)
@given(numeral=numerals(), steps=st.integers(-2, 2))
def test_numbers_compare_with_floats_as_with_their_shortest_decimals(
    compare: Compare, numeral: str, steps: int
) -> None:
    number, near = parse_number(numeral), float(numeral)
    for _ in range(abs(steps)):
        near = math.nextafter(near, math.copysign(math.inf, steps))
    exact = Fraction(numeral)
    decimal: Fraction | float = near if math.isinf(near) else Fraction(repr(near))

    assert compare(number, near) == compare(exact, decimal)
    assert compare(near, number) == compare(decimal, exact)


@given(numerals() | long_numerals())
def test_infinity_is_beyond_every_number(numeral: str) -> None:
    number = parse_number(numeral)

    assert -math.inf < number < math.inf
    assert not number <= -math.inf
    assert not number >= math.inf


@given(PAIRS)
def test_equal_numbers_have_equal_hashes(pair: tuple[str, str]) -> None:
    one, other = map(parse_number, pair)

    assert (len({one, other}) == 1) == (Fraction(pair[0]) == Fraction(pair[1]))


@given(numerals())
def test_a_number_is_a_float_whenever_a_float_stands_for_it(numeral: str) -> None:
    nearest = float(numeral)
    stands = math.isfinite(nearest) and Fraction(repr(nearest)) == Fraction(numeral)

    assert isinstance(parse_number(numeral), float) == stands


@given(st.lists(numerals(), max_size=6))
def test_mixed_numbers_sort_as_fractions(numerals: list[str]) -> None:
    numbers = sorted(map(parse_number, numerals))

    assert [value(number) for number in numbers] == sorted(map(Fraction, numerals))


@given(numerals().map(parse_number))
def test_the_floats_around_a_number_are_the_nearest_ones(number: float | Exact) -> None:
    if isinstance(number, Exact):
        assert number.below < number < number.above
        assert math.nextafter(number.below, math.inf) == number.above


@given(numerals().map(parse_number))
def test_numbers_survive_pickling(number: float | Exact) -> None:
    copy = pickle.loads(pickle.dumps(number))

    assert copy == number
    if isinstance(number, Exact):
        assert (copy.below, copy.above) == (number.below, number.above)


def test_exact_numbers_print_their_numeral() -> None:
    assert repr(parse_number("9007199254740993")) == "Exact('9007199254740993')"
