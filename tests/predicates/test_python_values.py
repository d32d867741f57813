"""Predicates of Python mappings: which values there are, and which are refused."""

import enum
import math
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.predicates import Predicate, PredicateError
from smartpubsub.predicates.numbers import number_from
from tests.predicates.said import Said, as_mapping, predicate, value
from tests.predicates.strategies import said


class Word(str, enum.Enum):  # noqa: UP042
    PRICE = "the price"


class Level(enum.IntEnum):
    HIGH = 3


class Index:
    def __index__(self) -> int:
        return 7


class UnknownZone(tzinfo):
    def utcoffset(self, _: datetime | None, /) -> None:
        return None

    dst = tzname = utcoffset


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "x"),
        (5, "x=5"),
        (0, "x=0"),
        (1, "x=1"),
        (-0.0, "x=0"),
        (0.1, "x=0.1"),
        ("0.1", "x=0.1"),
        ("2007-01-31", "x=2007-01-31"),
        (Decimal("0.10"), "x=0.1"),
        (Decimal("-0"), "x=0"),
        (Decimal("0E+999999"), "x=0"),
        (2**53 + 1, "x=9007199254740993"),
        (-(10**100) - 1, f"x=-1{'0' * 99}1"),
        (10**999, "x=1e999"),
        (Level.HIGH, "x=3"),
        (Index(), "x=7"),
        (date(2007, 1, 31), "x=2007-01-31"),
        (date.min, "x=0001-01-01"),
        (date.max, "x=9999-12-31"),
        (datetime.max, "x=9999-12-31T23:59:59.999999Z"),
        (datetime(2007, 1, 31, 12), "x=2007-01-31T12:00Z"),
        (datetime(2007, 1, 31, 12, tzinfo=UTC), "x=2007-01-31T12:00Z"),
        (datetime(2007, 1, 31, 12, tzinfo=UnknownZone()), "x=2007-01-31T12:00Z"),
        (
            datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
            "x=0001-01-01T00:00:00+14:00",
        ),
        ((10, 20), "x[10,20]"),
        ([10, 20], "x[10,20]"),
        ((10, 10), "x=10"),
        ((10, None), "x[10,]"),
        ((None, 20), "x[,20]"),
        ((None, None), "x[,]"),
        ((-math.inf, 20), "x[,20]"),
        ((10, math.inf), "x[10,]"),
        (("2007-01-01", date(2007, 1, 31)), "x[2007-01-01,2007-01-31]"),
    ],
)
def test_values(value: object, text: str) -> None:
    assert Predicate.of({"x": value}) == Predicate.parse(text)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (False, "False cannot be expressed; a topic is True, or left out"),
        (None, "None cannot be expressed; a topic is True, or left out"),
        (math.nan, "NaN is not a number"),
        (math.inf, "at least one finite number"),
        (-math.inf, "at least one finite number"),
        ((math.inf, math.inf), "at least one finite number"),
        ((-math.inf, -math.inf), "at least one finite number"),
        ((math.inf, 5), "at least one finite number"),
        ((5, -math.inf), "at least one finite number"),
        ((math.nan, 5), "NaN is not a number"),
        (Decimal("NaN"), "NaN is not a finite number"),
        (Decimal("sNaN"), "sNaN is not a finite number"),
        (Decimal("-Infinity"), "-Infinity is not a finite number"),
        (Decimal("1E+100001"), "an exponent is at most 100000"),
        (Decimal(10**1000 + 1), "at most 1000 digits"),
        (10**1000, "at most 1000 digits"),
        (-(10**4000), "at most 1000 digits"),
        ((20, 10), "the lower bound 20 is above the upper bound 10"),
        ((), "a pair of bounds, this has 0 elements"),
        ((1,), "a pair of bounds, this has 1 elements"),
        ([1, 2, 3], "a pair of bounds, this has 3 elements"),
        ((True, 2), "True and False are not numbers"),
        ("", "expected a number such as 24"),
        ("lisbon", "expected a number such as 24"),
        ("10,20", "expected a number such as 24"),
        (b"5", "found bytes"),
        (1j, "found complex"),
        (Fraction(1, 3), "found Fraction"),
        ({10, 20}, "found set"),
        ({}, "found dict"),
        (time(12), "found time"),
        (timedelta(1), "found timedelta"),
        (object(), "found object"),
    ],
)
def test_values_that_cannot_be_said_are_refused_by_name(value: object, problem: str) -> None:
    with pytest.raises(PredicateError, match=problem) as caught:
        Predicate.of({"surf": True, "x": value})
    assert "attribute 'x'" in str(caught.value)
    assert caught.value.column is None


@pytest.mark.parametrize(
    ("mapping", "problem"),
    [
        ({}, "at least one attribute"),
        (dict.fromkeys("abcdef", True), "too many attributes: 6; at most 5"),
        ({5: True}, "attribute 5: a name is a string"),
        ({b"x": True}, "a name is a string"),
        ({"": True}, "a name is empty"),
        ({"\ud800": True}, "half of a surrogate pair"),
    ],
)
def test_mappings_that_are_no_predicates_are_refused(
    mapping: dict[str, object], problem: str
) -> None:
    with pytest.raises(PredicateError, match=problem):
        Predicate.of(mapping)


def test_numpy_scalars_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")

    assert Predicate.of({"x": numpy.float64(0.1)}) == Predicate.parse("x=0.1")
    assert Predicate.of({"x": numpy.int64(2**53 + 1)}) == Predicate.parse("x=9007199254740993")
    with pytest.raises(PredicateError, match="NaN"):
        Predicate.of({"x": numpy.float64("nan")})
    with pytest.raises(PredicateError, match="expected a number"):
        Predicate.of({"x": numpy.array([10, 20])})
    with pytest.raises(PredicateError, match="expected a number"):
        Predicate.of({"x": numpy.True_})


def test_names_from_an_enumeration_are_their_strings() -> None:
    predicate = Predicate.of({Word.PRICE: 5})

    assert str(predicate) == "the%20price=5"
    assert type(next(iter(predicate.attributes))) is str


def test_names_that_are_the_same_string_are_repeated() -> None:
    class Renamed(str):
        __slots__ = ()

        def __hash__(self) -> int:
            return 1

    with pytest.raises(PredicateError, match="repeated"):
        Predicate.of({Renamed("price"): 5, "price": 6})


@given(said())
def test_mappings_make_the_predicates_that_texts_make(said: Said) -> None:
    assert Predicate.of(as_mapping(said)) == predicate(said)
    assert str(Predicate.of(as_mapping(said))) == str(predicate(said))


@given(said())
def test_the_intervals_of_a_predicate_make_it_again(said: Said) -> None:
    read = predicate(said)
    attributes = {n: True if bounds is None else bounds for n, bounds in read.attributes.items()}

    assert Predicate.of(attributes) == read


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_stands_for_its_shortest_decimal(number: float) -> None:
    assert value(number_from(number)) == Fraction(repr(number))
    assert number_from(number) == number_from(repr(number))


@given(st.integers(-(10**999), 10**999) | st.integers(-(2**54), 2**54))
def test_integers_of_any_size_keep_their_value(integer: int) -> None:
    assert value(number_from(integer)) == integer
    assert number_from(integer) == number_from(str(integer))


def test_zero_has_no_sign() -> None:
    assert repr(number_from(-0.0)) == repr(number_from("-0")) == repr(number_from(Decimal("-0")))
