"""Error texts for malformed requests: the fields of a type, and the values of a field."""

from __future__ import annotations

import re
from difflib import get_close_matches

import msgspec
from msgspec import inspect

_FIELD = re.compile(r"at `\$\.(\w+)")
_UNKNOWN = re.compile(r"unknown field `(.*?)`", re.DOTALL)
_NAME_LENGTH_MAX = 40


def explained(error: msgspec.ValidationError, kind: type[msgspec.Struct]) -> str:
    """Name the wrong field, and the allowed values."""
    known = {field.encode_name: field for field in _fields(kind)}
    unknown = _UNKNOWN.search(str(error))
    if unknown is not None and "at `$" not in str(error):
        name = unknown[1][:_NAME_LENGTH_MAX]
        meant = get_close_matches(name, known, n=1)
        hint = f"did you mean {meant[0]}? " if meant else ""
        there = ", ".join(known) or "none"
        return f"there is no {name!r}; {hint}allowed are: {there}"
    field = _FIELD.search(str(error))
    if field is None or field[1] not in known:
        return str(error)
    problem = str(error).partition(" - at ")[0]
    return f"{field[1]}: expected {expected(known[field[1]].type)}; {problem}"


def _fields(kind: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    known = inspect.type_info(kind)
    return known.fields if isinstance(known, inspect.StructType) else ()


def expected(kind: inspect.Type) -> str:
    """Describe the values of a type.

    >>> expected(inspect.type_info(int | None))
    'a whole number'
    """
    match kind:
        case inspect.UnionType(types):
            return " or ".join(
                expected(each) for each in types if not isinstance(each, inspect.NoneType)
            )
        case inspect.LiteralType(values):
            return f"one of {', '.join(map(str, values))}"
        case inspect.IntType():
            return f"a whole number{_bounds(kind)}"
        case inspect.FloatType():
            return f"a number{_bounds(kind)}"
        case inspect.BoolType():
            return "true or false"
        case inspect.ListType(item):
            return f"a list, each item {expected(item)}"
        case inspect.DictType(_, value):
            return f"an object, each value {expected(value)}"
    return "text"


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    low = f" from {kind.ge:,}" if kind.ge is not None else ""
    low = f" above {kind.gt:,}" if kind.gt is not None else low
    high = f" to {kind.le:,}" if kind.le is not None else ""
    return low + high
