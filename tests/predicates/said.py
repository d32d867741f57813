"""What a predicate says as plain data, and how to write it in each of the front ends."""

from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from smartpubsub.predicates import Predicate
from smartpubsub.predicates.numbers import Exact, Number

Bounds: TypeAlias = tuple[str | None, str | None]
Said: TypeAlias = dict[str, Bounds | None]


def predicate(said: Said) -> Predicate:
    return Predicate.parse(written(said))


def written(said: Said) -> str:
    return "/".join(in_escapes(name) + in_brackets(bounds) for name, bounds in said.items())


def in_escapes(name: str) -> str:
    return "".join(f"%{byte:02x}" for byte in name.encode())


def in_brackets(bounds: Bounds | None) -> str:
    if bounds is None:
        return ""
    return f"[{bounds[0] or ''},{bounds[1] or ''}]"


def as_condition(said: Said) -> str:
    """The same as SQL would say it; a range without any bound cannot be said there."""
    return " and ".join(
        f'"{quoted}"{comparison(bounds)}'
        for quoted, bounds in ((name.replace('"', '""'), said[name]) for name in said)
    )


def comparison(bounds: Bounds | None) -> str:
    match bounds:
        case None:
            return ""
        case (None, hi):
            return f" <= {hi}"
        case (lo, None):
            return f" >= {lo}"
        case (lo, hi):
            return f" = {lo}" if lo == hi else f" between {lo} and {hi}"


def as_mapping(said: Said) -> dict[str, object]:
    return {
        name: True
        if bounds is None
        else tuple(bound if bound is None else Decimal(bound) for bound in bounds)
        for name, bounds in said.items()
    }


def value(number: Number) -> Fraction:
    """What a finite number stands for."""
    return Fraction(number.decimal if isinstance(number, Exact) else repr(number))
