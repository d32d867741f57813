"""Exact numbers at the price of floats.

A predicate's numbers are decimals, and they are exact: `0.1` is one tenth, and a
twenty-digit integer keeps all its digits. Nearly every number that people write is the
shortest decimal of some float, so such a number is kept as that float and stands for
`Decimal(repr(f))`. Distinct floats have distinct shortest decimals in the same order, hence
comparing two of them as floats compares the decimals. The few numbers in between are kept as
`Exact`, which knows the two floats around it and compares correctly with both kinds.
"""

from __future__ import annotations

import math
import operator
import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TypeAlias

DIGITS_MAX = 1000
EXPONENT_MAX = 100_000
_EXPONENT_PROBLEM = f"an exponent is at most {EXPONENT_MAX} either way"

_NUMBER = re.compile(r"[+-]?(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
_INSTANT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,30}))?)?"
    r"(?:(Z)|([+-])([0-9]{2}):?([0-9]{2}))?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Any decimal of at most 15 digits survives the conversion to a float and back, except subnormals.
_SAFE_DIGITS = 15
_SAFE_INTEGER = 2**53
_SAFE_MAGNITUDE = (1e-290, 1e290)

# Numerals with more zeros than this are written with an exponent.
_PLAIN_ZEROS_MAX = 20
_PLAIN_LEADING_ZEROS_MAX = 6


class Exact:
    """A decimal that is not the shortest form of any float, with the floats on its two sides."""

    __slots__ = ("above", "below", "decimal")

    def __init__(self, decimal: Decimal) -> None:
        nearest = float(decimal)
        self.decimal = decimal
        if Decimal(repr(nearest)) < decimal:
            self.below, self.above = nearest, math.nextafter(nearest, math.inf)
        else:
            self.below, self.above = math.nextafter(nearest, -math.inf), nearest

    def __lt__(self, other: Number) -> bool:
        return self.decimal < other.decimal if isinstance(other, Exact) else self.above <= other

    def __gt__(self, other: Number) -> bool:
        return self.decimal > other.decimal if isinstance(other, Exact) else other <= self.below

    def __le__(self, other: Number) -> bool:
        return not self > other

    def __ge__(self, other: Number) -> bool:
        return not self < other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exact) and self.decimal == other.decimal

    def __hash__(self) -> int:
        return hash(self.decimal)

    def __reduce__(self) -> tuple[type[Exact], tuple[Decimal]]:
        return Exact, (self.decimal,)

    def __repr__(self) -> str:
        return f"Exact({format_number(self)!r})"


Number: TypeAlias = float | Exact


def from_decimal(value: Decimal) -> Number:
    """The number that equals a finite decimal.

    >>> from_decimal(Decimal("0.1"))
    0.1
    """
    if len(value.as_tuple().digits) > DIGITS_MAX:
        raise ValueError(f"a number has at most {DIGITS_MAX} digits")
    if value and abs(value.adjusted()) > EXPONENT_MAX:
        raise ValueError(_EXPONENT_PROBLEM)
    nearest = float(value)
    if math.isfinite(nearest) and Decimal(repr(nearest)) == value:
        return nearest + 0.0  # The sum turns -0.0 into 0.0.
    return Exact(value)


def parse_number(text: str) -> Number:
    """Parse an integer, a decimal or an ISO 8601 date; raise ValueError that says what is wrong.

    >>> parse_number("1970-01-02")
    86400.0
    """
    number = _NUMBER.fullmatch(text)
    if number is None:
        return _parse_instant(text)
    digits = len(number[1]) + len(number[2] or "")
    if digits <= _SAFE_DIGITS:
        nearest = float(text)
        if _SAFE_MAGNITUDE[0] < abs(nearest) < _SAFE_MAGNITUDE[1]:
            return nearest
    if len(number[3] or "") > len(str(EXPONENT_MAX)) + 4:
        raise ValueError(_EXPONENT_PROBLEM)
    if digits > DIGITS_MAX:
        raise ValueError(f"a number has at most {DIGITS_MAX} digits, this one has {digits}")
    return from_decimal(Decimal(text))


def _parse_instant(text: str) -> Number:
    instant = _INSTANT.fullmatch(text)
    if instant is None:
        raise ValueError(
            "expected a number such as 24, -0.5 or 1e-3, or a date such as 2007-01-31"
            " or 2007-01-31T12:00:00Z"
        )
    year, month, day, hour, minute, second = (int(part or 0) for part in instant.groups()[:6])
    sign, hours, minutes = instant[9], int(instant[10] or 0), int(instant[11] or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(f"no such time zone: {sign}{hours:02}:{minutes:02}")
    offset = timedelta(hours=hours, minutes=minutes) * (-1 if sign == "-" else 1)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone(offset))
    except ValueError as error:
        raise ValueError(f"no such date or time: {error}") from None
    fraction = instant[7] or ""
    seconds = (moment - _EPOCH) // timedelta(seconds=1)
    return _scaled(seconds * 10 ** len(fraction) + int(fraction or 0), -len(fraction))


def _scaled(integer: int, exponent: int) -> Number:
    # Through text, because decimal arithmetic rounds to its context and reading does not.
    return from_decimal(Decimal(f"{integer}e{exponent}"))


def number_from(value: object) -> Number:
    """The number that a Python value stands for; a float stands for its shortest decimal.

    >>> number_from(20) == number_from(20.0) == number_from("20") == 20
    True
    """
    match value:
        case bool():
            raise ValueError("True and False are not numbers")
        case float():
            if math.isnan(value):
                raise ValueError("NaN is not a number")
            return float(value) + 0.0
        case str():
            return parse_number(value)
        case Decimal():
            if not value.is_finite():
                raise ValueError(f"{value} is not a finite number")
            return from_decimal(value)
        case Exact():
            return value
        case datetime():
            moment = value.replace(tzinfo=UTC) if value.utcoffset() is None else value
            return _scaled((moment - _EPOCH) // timedelta(microseconds=1), -6)
        case date():
            return parse_number(value.isoformat())
        case _:
            return _number_from_integer(value)


def _number_from_integer(value: object) -> Number:
    try:
        integer = operator.index(value)  # type: ignore[arg-type]  # told apart by the TypeError
    except TypeError:
        raise ValueError(
            f"expected a number, a date or a numeral, found {type(value).__name__}"
        ) from None
    if abs(integer) <= _SAFE_INTEGER:
        return float(integer)
    if integer.bit_length() > DIGITS_MAX * 3.33:
        raise ValueError(f"a number has at most {DIGITS_MAX} digits")
    return from_decimal(Decimal(integer))


def format_number(number: Number) -> str:
    """The shortest common numeral that reads back as the same number.

    >>> format_number(20.0), format_number(1e-300)
    ('20', '1e-300')
    """
    if type(number) is float:
        text = repr(number)
        if "e" not in text and "n" not in text:  # Neither an exponent, nor inf or nan.
            return text.removesuffix(".0") if number else "0"
    decimal = number.decimal if isinstance(number, Exact) else Decimal(repr(number))
    sign, digits, exponent = decimal.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("an open bound has no numeral")
    numeral = "".join(map(str, digits)).lstrip("0")
    stripped = numeral.rstrip("0")
    if not stripped:
        return "0"
    exponent += len(numeral) - len(stripped)
    if max(len(stripped) + exponent, 1 - exponent) > DIGITS_MAX:
        text = f"{stripped}e{exponent}"
    elif 0 <= exponent <= _PLAIN_ZEROS_MAX:
        text = stripped + "0" * exponent
    elif exponent < 0 and len(stripped) + exponent >= -_PLAIN_LEADING_ZEROS_MAX:
        padded = stripped.rjust(-exponent + 1, "0")
        text = f"{padded[:exponent]}.{padded[exponent:]}"
    else:
        text = f"{stripped}e{exponent}"
    return "-" + text if sign else text
