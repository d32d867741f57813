"""The matching rule once more, on fractions and without any cleverness."""

from fractions import Fraction

from tests.predicates.said import Bounds, Said


def matches(wanted: Said, carried: Said) -> bool:
    return all(name in carried and is_met(bounds, carried[name]) for name, bounds in wanted.items())


def is_met(wanted: Bounds | None, got: Bounds | None) -> bool:
    if wanted is None:
        return True
    if got is None:
        return False
    (lo, hi), (got_lo, got_hi) = wanted, got
    reaches_down = lo is None or (got_lo is not None and Fraction(lo) <= Fraction(got_lo))
    reaches_up = hi is None or (got_hi is not None and Fraction(got_hi) <= Fraction(hi))
    return reaches_down and reaches_up
