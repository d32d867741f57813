"""Events as rows of a schema: the usual columns, and typed ones for attributes and payloads."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FloatType,
    FractionalType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.pipeline.schemas import BLOCK, EVENT_ROWS

if TYPE_CHECKING:
    from smartpubsub.pipeline.datasource.decoding import Events

ROWS_PER_BATCH = 10_000

_PAYLOAD = "payload"
_USUAL: dict[str, Callable[[Events], Any]] = {
    "event_id": lambda events: events.event_ids,
    "cid": lambda events: events.cids,
    "publisher": lambda events: events.publishers,
    "published_at": lambda events: events.times,
    "topics": lambda events: events.topics,
    "ranges": lambda events: events.ranges,
    "payload": lambda events: events.payloads,
    "predicate": lambda events: events.predicates,
    BLOCK.name: lambda events: events.blocks,
}
_TYPES = {column.name: column.type for column in (*EVENT_ROWS.columns, BLOCK)}


def is_usual(name: str) -> bool:
    """Whether a column has its own meaning, and is no attribute."""
    return name in _USUAL


class RowSchema:
    """A schema chosen by the user, and the conversion of events to its rows."""

    def __init__(self, schema: StructType) -> None:
        for name in schema.names:
            if schema.names.count(name) > 1:
                raise PipelineError(
                    f"schema: there are two columns {name!r}; leave one of them out"
                )
        self._columns = [_column(field) for field in schema.fields]
        self._arrow = to_arrow_schema(schema, timezone="UTC")

    def batches(self, events: Events) -> Iterator[pa.RecordBatch]:
        """The rows of events, in Arrow batches of a limited length."""
        if not len(events):
            return
        arrays = [
            _array(column(events), field)
            for column, field in zip(self._columns, self._arrow, strict=True)
        ]
        whole = pa.RecordBatch.from_arrays(arrays, schema=self._arrow)
        for start in range(0, len(whole), ROWS_PER_BATCH):
            yield whole.slice(start, ROWS_PER_BATCH)


def _array(values: Any, field: pa.Field) -> pa.Array:
    kind = field.type
    array = values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)
    if array.null_count and not field.nullable:
        raise PipelineError(
            f"schema: the column {field.name!r} is declared NOT NULL, and an event has no value for"
            " it; leave out NOT NULL"
        )
    return array


def _column(field: StructField) -> Callable[[Events], Any]:
    name, kind = field.name, field.dataType
    if name == _PAYLOAD and not isinstance(kind, BinaryType):
        convert = _converter(kind, name)
        if isinstance(kind, StringType):
            return lambda events: events.text_payloads
        return lambda events: [*map(convert, events.json_payloads)]
    if name in _USUAL:
        wanted = _TYPES[name]
        if kind.simpleString() != wanted.simpleString():
            raise PipelineError(
                f"schema: the column {name!r} has the type {wanted.simpleString()}, not"
                f" {kind.simpleString()}; change the type, or leave the column out"
            )
        return _USUAL[name]
    convert = _converter(kind, name)
    return lambda events: [*map(convert, _found(events, name))]


def _found(events: Events, name: str) -> list[Any]:
    """The values of an attribute, or else of a member of the payload if that is a JSON object.

    An attribute with an interval hides the member, because the node compares the attribute alone
    when it applies a filter.
    """
    values = events.values
    if all(name in attributes for attributes in values):
        return [attributes[name] for attributes in values]
    return [
        attributes[name] if name in attributes else _member(payload, name)
        for attributes, payload in zip(values, events.json_payloads, strict=True)
    ]


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


# --- values of attributes and of JSON as values of a type; None where they are of another ---


def _converter(kind: DataType, column: str) -> Callable[[Any], Any]:
    match kind:
        case StringType():
            return _string
        case BooleanType():
            return lambda value: value if isinstance(value, bool) else None
        case IntegralType():
            lowest = -(1 << 8 * _SIZES[kind.typeName()] - 1)
            return lambda value: _whole(value, lowest)
        case DecimalType():
            return lambda value: _decimal(value, kind)
        case FloatType():
            return _single
        case FractionalType():
            return _float
        case TimestampType():
            return _timestamp
        case DateType():
            return _date
    return _nested(kind, column)


def _nested(kind: DataType, column: str) -> Callable[[Any], Any]:
    match kind:
        case ArrayType():
            element = _converter(kind.elementType, column)
            return lambda value: [*map(element, value)] if isinstance(value, list) else None
        case MapType(keyType=StringType()):
            member = _converter(kind.valueType, column)
            return lambda value: (
                [(key, member(each)) for key, each in value.items() if _is_utf8(key)]
                if isinstance(value, dict)
                else None
            )
        case StructType():
            parts = {each.name: _converter(each.dataType, column) for each in kind.fields}
            return lambda value: (
                {name: part(value.get(name)) for name, part in parts.items()}
                if isinstance(value, dict)
                else None
            )
    raise PipelineError(
        f"schema: the column {column!r} has the type {kind.simpleString()}, which no attribute and"
        " no JSON has; use string, boolean, a number, timestamp, date, array, map or struct"
    )


_SIZES = {"byte": 1, "short": 2, "integer": 4, "long": 8}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _is_utf8(text: str) -> bool:
    """Whether Arrow can hold a text; JSON can write half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _string(value: Any) -> str | None:
    match value:
        case None:
            return None
        case str():
            return value if _is_utf8(value) else None
        case Decimal():
            return str(value)
    return json.dumps(value)


def _float(value: Any) -> float | None:
    try:
        number = float(value) if _is_number(value) else None
    except OverflowError:  # JSON has whole numbers of any length.
        return None
    return None if number is None or math.isinf(number) else number


def _single(value: Any) -> float | None:
    """A number that 32 bits can hold."""
    number = _float(value)
    if number is None:
        return None
    try:
        struct.pack("<f", number)
    except OverflowError:
        return None
    return number


def _whole(value: Any, lowest: int) -> int | None:
    if not _is_number(value) or value != value or value in (float("inf"), float("-inf")):
        return None
    return int(value) if value == int(value) and lowest <= value < -lowest else None


def _decimal(value: Any, kind: DecimalType) -> Decimal | None:
    if not _is_number(value):
        return None
    try:
        # The context of the thread has fewer digits than a column may have.
        context = Context(prec=kind.precision)
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale), context=context)
    except InvalidOperation:  # There are more digits than the column has.
        return None


def _timestamp(value: Any) -> datetime | None:
    """A text of ISO 8601, or seconds since 1970, as dates in predicates are."""
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return datetime.fromtimestamp(float(value), UTC) if _is_number(value) else None
    except (ValueError, OverflowError, OSError):
        return None


def _date(value: Any) -> date | None:
    at = _timestamp(value)
    return None if at is None else at.date()
