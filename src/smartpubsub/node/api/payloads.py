"""Payloads: bytes, text, JSON, or a value that the application's serialiser writes."""

from __future__ import annotations

import json as json_format
from typing import Any, Final, Protocol

from smartpubsub.errors import SmartPubSubError


class PayloadError(SmartPubSubError, ValueError):
    """A payload that cannot be written or read in the wanted format."""


class Serializer(Protocol):
    """Writes values as payloads, and reads them."""

    def dumps(self, value: Any, /) -> bytes:
        """Write a value."""
        ...

    def loads(self, payload: bytes, /) -> Any:
        """Read a value."""
        ...


class JsonSerializer:
    """JSON in UTF-8; values that JSON does not have, such as NaN, are errors."""

    def dumps(self, value: Any, /) -> bytes:
        """Write a value."""
        text = json_format.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()

    def loads(self, payload: bytes, /) -> Any:
        """Read a value."""
        return json_format.loads(payload)


JSON: Final = JsonSerializer()


class _NotGiven:
    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN: Final[Any] = _NotGiven()
"""The default of parameters for which None is a value."""


def payload_of(
    payload: bytes, text: str | None, json: Any, value: Any, serializer: Serializer
) -> bytes:
    """Write the payload that a call gives in one of four forms.

    >>> payload_of(b"", None, {"temp": 24}, NOT_GIVEN, JSON)
    b'{"temp":24}'
    """
    given = [
        name
        for name, is_given in (
            ("payload", payload != b""),
            ("text", text is not None),
            ("json", json is not NOT_GIVEN),
            ("value", value is not NOT_GIVEN),
        )
        if is_given
    ]
    if len(given) > 1:
        raise PayloadError(f"{' and '.join(given)} are given; an event has one payload")
    if text is not None:
        if not isinstance(text, str):
            raise TypeError(f"text is a str, not {type(text).__name__}")
        return text.encode()
    if json is not NOT_GIVEN:
        return _written(JSON, json, "json")
    if value is not NOT_GIVEN:
        return _written(serializer, value, "value")
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise TypeError(f"a payload is bytes, not {type(payload).__name__}; use text= or json=")
    return bytes(payload)


def _written(serializer: Serializer, value: Any, parameter: str) -> bytes:
    try:
        return serializer.dumps(value)
    except (TypeError, ValueError) as error:
        raise PayloadError(f"{parameter} cannot be written as a payload: {error}") from error


def read_payload(serializer: Serializer, payload: bytes, event_id: str) -> Any:
    """Read the payload of an event."""
    try:
        return serializer.loads(payload)
    except ValueError as error:
        name = "JSON" if serializer is JSON else type(serializer).__name__
        raise PayloadError(
            f"the payload of the event {event_id} cannot be read as {name}: {error}"
        ) from error
