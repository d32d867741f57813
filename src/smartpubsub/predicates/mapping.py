"""Predicates from Python mappings: `{"portugal": True, "temp": (20, 30)}`."""

from __future__ import annotations

import math
from collections.abc import Mapping

from smartpubsub.predicates.attributes import Attributes, Interval, checked_interval
from smartpubsub.predicates.errors import PredicateError
from smartpubsub.predicates.names import check_name
from smartpubsub.predicates.numbers import Number, number_from


def attributes_of(mapping: Mapping[str, object], attributes_max: int) -> Attributes:
    """Read a mapping from names to True, a number, or a pair of bounds (None for an open one)."""
    if not mapping:
        raise PredicateError("a predicate has at least one attribute; this mapping is empty")
    if len(mapping) > attributes_max:
        raise PredicateError(
            f"too many attributes: {len(mapping)}; at most {attributes_max} are allowed"
        )
    attributes: Attributes = {}
    for name, value in mapping.items():
        try:
            if not isinstance(name, str):
                raise ValueError("a name is a string")
            check_name(name)
            # `str(name)` would print a member of a string enumeration as something else.
            plain = str.__str__(name)
            if plain in attributes:
                raise ValueError("the name is repeated; give each attribute once")
            attributes[plain] = _interval(value)
        except ValueError as error:
            raise PredicateError(f"attribute {name!r}: {error}") from None
    return attributes


def _interval(value: object) -> Interval | None:
    match value:
        case True:
            return None
        case bool() | None:
            raise ValueError(f"{value} cannot be expressed; a topic is True, or left out")
        case tuple((lo, hi)) | list((lo, hi)):
            return checked_interval(_bound(lo, -math.inf), _bound(hi, math.inf))
        case tuple() | list():
            raise ValueError(f"a range is a pair of bounds, this has {len(value)} elements")
        case _:
            number = number_from(value)
            return checked_interval(number, number)


def _bound(value: object, missing: float) -> Number:
    return missing if value is None else number_from(value)
