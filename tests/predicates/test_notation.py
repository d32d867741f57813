"""What the written forms mean, and how a predicate is printed."""

import math
from fractions import Fraction

import pytest
from hypothesis import given

from smartpubsub.predicates import Predicate, PredicateError
from smartpubsub.predicates.numbers import Number
from tests.predicates.said import Said, predicate, value, written
from tests.predicates.strategies import said

OPEN = (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        ("portugal", {"portugal": None}),
        ("portugal/surf", {"portugal": None, "surf": None}),
        ("price[10,20]", {"price": (10, 20)}),
        ("price[10,]", {"price": (10, math.inf)}),
        ("price[,20]", {"price": (-math.inf, 20)}),
        ("price[,]", {"price": OPEN}),
        ("price[ , ]", {"price": OPEN}),
        ("price[  10 ,  20 ]", {"price": (10, 20)}),
        ("temp=24", {"temp": (24, 24)}),
        ("temp[24]", {"temp": (24, 24)}),
        ("temp[ 24 ]", {"temp": (24, 24)}),
        ("temp[24,24.0]", {"temp": (24, 24)}),
        ("temp[-5,-0.5]", {"temp": (-5, -0.5)}),
        ("temp=+5", {"temp": (5, 5)}),
        ("temp[.5,1.]", {"temp": (0.5, 1)}),
        ("temp=1E3", {"temp": (1000, 1000)}),
        ("day[1970-01-02,1970-01-03]", {"day": (86400, 172800)}),
        ("surf T", {"surf": None}),
        ("surf T/price R 1000 1500", {"surf": None, "price": (1000, 1500)}),
        ("price  R  1000  1500 /surf", {"price": (1000, 1500), "surf": None}),
        ("day R 1970-01-02 1970-01-03", {"day": (86400, 172800)}),
        ("T T/R R 1 2", {"T": None, "R": (1, 2)}),
        ("24", {"24": None}),
        ("24=24", {"24": (24, 24)}),
        ("2007-01-31", {"2007-01-31": None}),
        ("Surf/surf", {"Surf": None, "surf": None}),
        ("-/._-", {"-": None, "._-": None}),
    ],
)
def test_written_forms(text: str, attributes: dict[str, tuple[float, float] | None]) -> None:
    assert dict(Predicate.parse(text).attributes) == attributes


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("surf/price[10,20]", "surf/price[10,20]"),
        ("price[10,20]/surf", "price[10,20]/surf"),
        ("surf T/price R 1000 1500", "surf/price[1000,1500]"),
        ("price R 5 5", "price=5"),
        ("price[5]", "price=5"),
        ("price[5,5.00]", "price=5"),
        ("price[ 1 , ]", "price[1,]"),
        ("price[ , 1 ]", "price[,1]"),
        ("price[,]", "price[,]"),
        ("price[-0,+1.50]", "price[0,1.5]"),
        ("%61%2f%C3%A9", "a%2Fé"),
    ],
)
def test_printing_is_in_the_current_notation(text: str, printed: str) -> None:
    assert str(Predicate.parse(text)) == printed
    assert repr(Predicate.parse(text)) == f"Predicate({printed!r})"


@given(said())
def test_reading_keeps_names_order_and_exact_bounds(said: Said) -> None:
    attributes = predicate(said).attributes

    assert list(attributes) == list(said)
    for name, bounds in said.items():
        interval = attributes[name]
        if bounds is None or interval is None:
            assert bounds is None
            assert interval is None
        else:
            assert is_bound(interval.lo, bounds[0], missing=-math.inf)
            assert is_bound(interval.hi, bounds[1], missing=math.inf)


def is_bound(number: Number, numeral: str | None, missing: float) -> bool:
    return number == missing if numeral is None else value(number) == Fraction(numeral)


@given(said())
def test_printed_predicates_read_back_in_the_same_order(said: Said) -> None:
    read = Predicate.parse(written(said))
    again = Predicate.parse(str(read))

    assert again == read
    assert str(again) == str(read)


@pytest.mark.parametrize("count", [1, 5])
def test_as_many_attributes_as_allowed_are_read(count: int) -> None:
    assert len(Predicate.parse("/".join("abcde"[:count]))) == count


def test_how_many_attributes_are_allowed_can_be_said() -> None:
    assert len(Predicate.parse("a/b/c/d/e/f", attributes_max=6)) == 6
    assert len(Predicate.where("a and b and c and d and e and f", attributes_max=6)) == 6
    assert len(Predicate.of(dict.fromkeys("abcdef", True), attributes_max=6)) == 6
    with pytest.raises(PredicateError, match="at most 1 "):
        Predicate.parse("a/b", attributes_max=1)
