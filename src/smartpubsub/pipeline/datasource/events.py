"""Rows as events to publish: their predicates and payloads."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    FractionalType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from smartpubsub.pipeline.datasource.options import OptionError, SinkOptions
from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.predicates import Predicate, PredicateError
from smartpubsub.predicates.names import encode_name

PREDICATE, PAYLOAD = "predicate", "payload"

Row: TypeAlias = Mapping[str, Any]
_COLUMN = re.compile(r"\{([^{}]*)\}")


class NewEvent(NamedTuple):
    """An event to publish."""

    predicate: str | None
    """None in a topic."""
    payload: bytes


class EventMapping:
    """How rows of a schema become events."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._predicate = _predicate(options, schema)
        self._payload = _payload(schema)

    def events(self, batch: pa.RecordBatch) -> Iterator[NewEvent]:
        """The events of a batch, in its order."""
        # Imported here, because the Python process of each planning step does not need it.
        from smartpubsub.protocols.publication import PAYLOAD_BYTES_MAX, too_long

        for row in batch.to_pylist():
            predicate, payload = self._predicate(row), self._payload(row)
            if len(payload) > PAYLOAD_BYTES_MAX:
                raise PipelineError(
                    f"the payload of a row has {len(payload):,} bytes; {too_long()}"
                )
            yield NewEvent(predicate, payload)


def _predicate(options: SinkOptions, schema: StructType) -> Callable[[Row], str | None]:
    if options.topic is not None:
        return lambda _row: None
    if options.template is not None:
        return _from_template(options.template, schema)
    if PREDICATE not in schema.names or not isinstance(schema[PREDICATE].dataType, StringType):
        raise OptionError(
            "predicate",
            "is missing, and the rows have no column 'predicate' of texts; add the column, or write"
            " the predicate with the names of columns in braces: alerts/{city}/temp={temp}; or name"
            " a topic with the option 'topic'",
        )
    return lambda row: _checked(row[PREDICATE])


def _from_template(template: str, schema: StructType) -> Callable[[Row], str]:
    names = _COLUMN.findall(template)
    for name in names:
        if name not in schema.names:
            raise OptionError(
                "predicate", f"there is no column {name!r}, only {', '.join(schema.names)}"
            )
    _checked(_COLUMN.sub("1", template), "option 'predicate': ")
    return lambda row: _checked(_COLUMN.sub(lambda found: _written(found[1], row), template))


def _written(name: str, row: Row) -> str:
    match row[name]:
        case None:
            raise PipelineError(
                f"the column {name!r} of a row is null, so the row has no predicate; filter such"
                " rows out"
            )
        case str() as text:
            return encode_name(text)
        case bool() as truth:
            return str(truth).lower()
        case int() | float() | Decimal() as number:
            return str(number)
        case date() as at:
            return at.isoformat()
    raise PipelineError(
        f"the column {name!r} is neither text nor a number nor a time; convert it first"
    )


def _checked(text: str | None, where: str = "") -> str:
    if text is None:
        raise PipelineError("the column 'predicate' of a row is null; filter such rows out")
    try:
        Predicate.parse(text, attributes_max=len(text) + 1)
    except PredicateError as error:
        raise PipelineError(f"{where}{text!r} is no predicate: {error}") from None
    return text


def _payload(schema: StructType) -> Callable[[Row], bytes]:
    if PAYLOAD not in schema.names:
        columns = {
            field.name: _for_json(field.dataType, field.name)
            for field in schema.fields
            if field.name != PREDICATE
        }
        return lambda row: _json({name: convert(row[name]) for name, convert in columns.items()})
    kind = schema[PAYLOAD].dataType
    if isinstance(kind, BinaryType):
        return lambda row: row[PAYLOAD] or b""
    if isinstance(kind, StringType):
        return lambda row: (row[PAYLOAD] or "").encode()
    convert = _for_json(kind, PAYLOAD)
    return lambda row: _json(convert(row[PAYLOAD]))


def _json(value: object) -> bytes:
    return json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False).encode()


def _plain(value: object) -> object:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            exponent = value.as_tuple().exponent
            return int(value) if isinstance(exponent, int) and exponent >= 0 else float(value)
    return str(value)


def _for_json(kind: DataType, column: str) -> Callable[[Any], Any]:
    """The conversion of values as Arrow returns them to those that JSON has.

    As with `to_json` of Spark, maps are objects, and numbers that JSON lacks are texts.
    """
    match kind:
        case FractionalType():
            return _finite
        case ArrayType():
            element = _for_json(kind.elementType, column)
            return lambda value: None if value is None else [*map(element, value)]
        case MapType():
            key, member = _for_json(kind.keyType, column), _for_json(kind.valueType, column)
            return lambda value: (
                None if value is None else {_key(key(name)): member(each) for name, each in value}
            )
        case StructType():
            parts = {each.name: _for_json(each.dataType, column) for each in kind.fields}
            return lambda value: (
                None if value is None else {name: part(value[name]) for name, part in parts.items()}
            )
        case VariantType():
            raise PipelineError(
                f"the column {column!r} has a variant; write it as text with to_json first"
            )
    return lambda value: value


def _finite(value: Any) -> Any:
    """A number, or the text that Spark writes for one that JSON lacks."""
    if isinstance(value, Decimal) or value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _key(value: object) -> str:
    return value if isinstance(value, str) else _json(value).decode().strip('"')
