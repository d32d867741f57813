"""Numerals: which there are, that each keeps its exact value, and how they are printed."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given

from smartpubsub.predicates import Predicate, PredicateError
from smartpubsub.predicates.numbers import DIGITS_MAX, Exact, format_number, parse_number
from tests.predicates.said import value
from tests.predicates.strategies import long_numerals, numerals


@pytest.mark.parametrize(
    ("numeral", "number"),
    [
        ("0.1", 0.1),
        ("24", 24),
        ("-0", 0),
        ("-0.000", 0),
        ("0e999999999", 0),
        ("-0e-999999999", 0),
        ("+5", 5),
        ("007", 7),
        ("1e3", 1000),
        ("1E+3", 1000),
        ("1e-300", 1e-300),
        ("5e-324", 5e-324),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("9007199254740992", 2**53),
        ("0.30000000000000004", 0.1 + 0.2),
        ("100000000000000000000000", 1e23),
    ],
)
def test_usual_numbers_are_floats(numeral: str, number: float) -> None:
    read = parse_number(numeral)

    assert isinstance(read, float)
    assert read == number
    assert str(read) != "-0.0"


@pytest.mark.parametrize(
    "numeral",
    [
        "9007199254740993",
        str(10**100 + 1),
        "0.1000000000000000055511151231257827021181583404541015625",
        "99999999999999991611392",
        "3.14159265358979323846",
        "4.9e-324",
        "1e-400",
        "1e400",
        "-1e400",
        "1.7976931348623158e308",
        "1e100000",
        "1e-100000",
    ],
)
def test_numbers_that_no_float_stands_for_are_kept_exactly(numeral: str) -> None:
    read = parse_number(numeral)

    assert isinstance(read, Exact)
    assert read.decimal == Decimal(numeral)


@given(numerals() | long_numerals())
def test_numerals_keep_their_value(numeral: str) -> None:
    assert value(parse_number(numeral)) == Fraction(numeral)


@given(numerals() | long_numerals())
def test_printed_numbers_keep_their_value_and_read_back(numeral: str) -> None:
    number = parse_number(numeral)
    printed = format_number(number)

    assert Fraction(printed) == Fraction(numeral)
    assert parse_number(printed) == number
    assert format_number(parse_number(printed)) == printed


@pytest.mark.parametrize(
    ("numeral", "printed"),
    [
        ("20.0", "20"),
        ("-0.0", "0"),
        ("+1.50", "1.5"),
        ("1e3", "1000"),
        ("1e20", "100000000000000000000"),
        ("1e21", "1e21"),
        ("-12e20", "-1200000000000000000000"),
        ("0.000001", "0.000001"),
        ("0.0000001", "0.0000001"),
        ("0.00000001", "1e-8"),
        ("-1.5e-300", "-15e-301"),
        ("00.10", "0.1"),
        ("9007199254740993.0", "9007199254740993"),
        (f"1{'0' * 100}1", f"1{'0' * 100}1"),
    ],
)
def test_numbers_are_printed_in_their_usual_form(numeral: str, printed: str) -> None:
    assert format_number(parse_number(numeral)) == printed


@pytest.mark.parametrize(
    "numeral",
    [
        "",
        " 1",
        "1 ",
        "1\n",
        "--1",
        "+-1",
        "-",
        "+",
        ".",
        "e5",
        ".e5",
        "1e",
        "1e+",
        "1e5.5",
        "1_000",
        "1.0.0",
        "0x10",
        "1f",
        "٣",
        "1٣",
        "\uff13",
        "²",
        "½",
        "\u22121",
        "nan",
        "NaN",
        "-nan",
        "sNaN",
        "inf",
        "-Infinity",
        "∞",
        "True",
        "\ud800",
        "1\0",
    ],
)
def test_what_is_no_numeral_is_refused(numeral: str) -> None:
    with pytest.raises(ValueError, match="expected a number such as 24"):
        parse_number(numeral)
    with pytest.raises(PredicateError) as caught:
        Predicate.parse(f"price={numeral}")
    assert caught.value.column == 7


@pytest.mark.parametrize(
    ("numeral", "problem"),
    [
        ("9" * (DIGITS_MAX + 1), "at most 1000 digits, this one has 1001"),
        ("0." + "0" * 999 + "1", "at most 1000 digits"),
        ("1" * 10**6, "at most 1000 digits"),
        ("1e100001", "an exponent is at most 100000"),
        ("1e-100001", "an exponent is at most 100000"),
        ("10e100000", "an exponent is at most 100000"),
        ("1e999999999", "an exponent is at most 100000"),
        ("-1e-999999999", "an exponent is at most 100000"),
    ],
)
def test_numbers_beyond_the_limits_are_refused(numeral: str, problem: str) -> None:
    with pytest.raises(PredicateError, match=problem) as caught:
        Predicate.parse(f"price[,{numeral}]")
    assert caught.value.column == 8


@pytest.mark.parametrize("numeral", ["9" * 1000, "9" * 990 + "e20", "9" * 1000 + "e-1004"])
def test_numbers_of_as_many_digits_as_allowed_are_printed_readably(numeral: str) -> None:
    predicate = Predicate.parse(f"price={numeral}")

    assert Predicate.parse(str(predicate)) == predicate


def test_an_open_bound_has_no_numeral() -> None:
    with pytest.raises(ValueError, match="no numeral"):
        format_number(float("inf"))


@pytest.mark.parametrize("numeral", ["1e100001", "1e-100001", "1e1234567890", "0e" + "9" * 5000])
def test_exponents_have_a_limit_that_is_told(numeral: str) -> None:
    with pytest.raises(ValueError, match="an exponent is at most 100000 either way"):
        parse_number(numeral)
