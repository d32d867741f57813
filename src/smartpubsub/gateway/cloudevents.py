"""Events as CloudEvents 1.0, in binary and in structured mode.

The predicate is the extension attribute `predicate`. A publisher need not send `id` and `source`;
if it sends both, they make the publication idempotent, because CloudEvents identifies an event by
them. The network keeps the predicate and the data and no other attribute, so the gateway's own
answers have the event's id, its publisher as the source, and the time of publication.
"""

from __future__ import annotations

import base64
import hashlib
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from smartpubsub.gateway.problems import ProblemError
from smartpubsub.node.api.events import Entry, Event
from smartpubsub.node.api.past import time_us
from smartpubsub.protocols.blocks import time_text

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
SPEC_VERSION = "1.0"
EVENT_TYPE = "smartpubsub.event"
TOPIC_EVENT_TYPE = "smartpubsub.topic.event"

_BINARY_PREFIX = "ce-"
_TEXT = "text/plain; charset=utf-8"


class CloudEvent(msgspec.Struct, omit_defaults=True):
    """An event as the gateway sends it."""

    specversion: str
    id: str
    source: str
    type: str
    time: str | None = None
    predicate: str | None = None
    """The event's predicate; absent in topics."""
    datacontenttype: str | None = None
    data: str | None = None
    """The payload, if it is UTF-8."""
    data_base64: str | None = None
    """The payload otherwise."""
    cid: str | None = None
    hops: int | None = None
    droppedbefore: int = 0
    """The number of events that the node dropped immediately before this one."""
    topic: str | None = None
    height: int | None = None
    parents: str | None = None
    """Content ids, separated by spaces: CloudEvents has no lists."""
    author: str | None = None


class NewEvent(NamedTuple):
    """An event to publish."""

    predicate: str
    payload: bytes
    key: str | None
    key_name: str = ""
    """The key's name in errors."""

    def with_key(self, key: str) -> NewEvent:
        """Publish by this key."""
        return self._replace(key=key, key_name=f"the Idempotency-Key {key!r}")


class _Received(msgspec.Struct):
    """The attributes of a structured event that the gateway reads."""

    specversion: str
    predicate: str | None = None
    id: str | None = None
    source: str | None = None
    data: msgspec.Raw = msgspec.Raw()
    data_base64: str | None = None


def from_event(event: Event) -> bytes:
    """Write an event of a subscription."""
    return msgspec.json.encode(
        CloudEvent(
            specversion=SPEC_VERSION,
            id=event.id,
            source=f"/p2p/{event.publisher}",
            type=EVENT_TYPE,
            time=time_text(time_us(event.created)) if event.created else None,
            predicate=str(event.predicate),
            cid=event.cid,
            hops=event.hops,
            droppedbefore=event.dropped_before,
            **_data(event.payload),
        )
    )


def from_entry(entry: Entry, topic: str) -> bytes:
    """Write an event of a topic."""
    return msgspec.json.encode(
        CloudEvent(
            specversion=SPEC_VERSION,
            id=entry.id,
            source=f"/p2p/{entry.publisher}",
            type=TOPIC_EVENT_TYPE,
            time=time_text(time_us(entry.created)),
            cid=entry.id,
            topic=topic,
            height=entry.height,
            parents=" ".join(entry.parents),
            author=entry.author,
            droppedbefore=entry.dropped_before,
            **_data(entry.payload),
        )
    )


def _data(payload: bytes) -> dict[str, Any]:
    try:
        return {"datacontenttype": _TEXT, "data": payload.decode()}
    except UnicodeDecodeError:
        return {
            "datacontenttype": "application/octet-stream",
            "data_base64": base64.b64encode(payload).decode(),
        }


def is_structured(content_type: str) -> bool:
    """Whether a body is a CloudEvent as a whole."""
    return content_type.partition(";")[0].strip().lower() == STRUCTURED


def is_batch(content_type: str) -> bool:
    """Whether a body is a list of CloudEvents."""
    return content_type.partition(";")[0].strip().lower() == BATCH


def read_binary(headers: Mapping[str, str], predicate: str | None, body: bytes) -> NewEvent:
    """Read an event whose attributes are headers and whose data is the body.

    `predicate` is that of the query, for clients that send no CloudEvents headers.
    """
    said = {
        name.removeprefix(_BINARY_PREFIX): unquote(value)
        for name, value in headers.items()
        if name.startswith(_BINARY_PREFIX)
    }
    if said.get("specversion", SPEC_VERSION) != SPEC_VERSION:
        raise ProblemError(400, f"ce-specversion: expected {SPEC_VERSION}")
    wanted = said.get("predicate", predicate)
    if not wanted:
        raise ProblemError(
            400, "no predicate; send it as ce-predicate, or as ?predicate= in the query"
        )
    return _keyed(NewEvent(wanted, body, None), said.get("source"), said.get("id"))


def read_structured(body: bytes) -> NewEvent:
    """Read an event that is one JSON document."""
    try:
        return _new_event(msgspec.json.decode(body, type=_Received))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProblemError(400, f"the body is not a CloudEvent: {error}") from None


def read_batch(body: bytes, count_max: int) -> list[NewEvent]:
    """Read a list of events."""
    try:
        received = msgspec.json.decode(body, type=list[_Received])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProblemError(400, f"the body is not a list of CloudEvents: {error}") from None
    if len(received) > count_max:
        raise ProblemError(413, f"a batch has at most {count_max} events; send several")
    return [_new_event(one) for one in received]


def _new_event(received: _Received) -> NewEvent:
    if received.specversion != SPEC_VERSION:
        raise ProblemError(400, f"specversion: expected {SPEC_VERSION}")
    if not received.predicate:
        raise ProblemError(400, "predicate: missing; it is an extension attribute, with text")
    new = NewEvent(received.predicate, _payload(received), None)
    return _keyed(new, received.source, received.id)


def _payload(received: _Received) -> bytes:
    if received.data_base64 is not None:
        try:
            return base64.b64decode(received.data_base64, validate=True)
        except (Base64Error, ValueError):
            raise ProblemError(400, "data_base64: expected base 64") from None
    raw = bytes(received.data)
    # Data that is a string is text; any other JSON value is the payload as it was written.
    return msgspec.json.decode(raw, type=str).encode() if raw.startswith(b'"') else raw


def _keyed(new: NewEvent, source: str | None, id: str | None) -> NewEvent:
    """Use an event's source and id, if it has both, as its publication key."""
    if not source or not id:
        return new
    key = "ce-" + hashlib.sha256(f"{len(source)}:{source}{id}".encode()).hexdigest()
    return new._replace(key=key, key_name=f"the id {id!r} of the source {source!r}")
