"""Rows as events to publish: their predicates and payloads."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructType

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
        for row in batch.to_pylist():
            yield NewEvent(self._predicate(row), self._payload(row))


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
        names = [name for name in schema.names if name != PREDICATE]
        return lambda row: json.dumps(
            {name: row[name] for name in names}, default=_plain, ensure_ascii=False
        ).encode()
    kind = schema[PAYLOAD].dataType
    if isinstance(kind, BinaryType):
        return lambda row: row[PAYLOAD] or b""
    if isinstance(kind, StringType):
        return lambda row: (row[PAYLOAD] or "").encode()
    return lambda row: json.dumps(row[PAYLOAD], default=_plain, ensure_ascii=False).encode()


def _plain(value: object) -> object:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return float(value)
    return str(value)
