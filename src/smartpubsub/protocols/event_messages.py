"""Events as messages of libp2p's pubsub, which is how all protocols send them.

The decoder checks a message against limits before it makes an event of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import Any

from smartpubsub.kademlia.protobuf import WireError, compile_schema, limit, parsed
from smartpubsub.predicates import ATTRIBUTES_MAX, Predicate, PredicateError
from smartpubsub.protocols.publication import (
    SEQUENCE_BYTES,
    SIGNATURE_BYTES,
    TOPIC,
    EventId,
    Publication,
)

EVENT_SCHEMA = """
message Message {
  optional bytes publisher = 1;
  optional bytes data = 2;
  optional bytes seqno = 3;
  optional string topic = 4;
  optional bytes signature = 5;
  optional bytes key = 6;
  optional uint32 hops = 100;
}
"""
# libp2p calls the first field `from`, which is a keyword of Python. The hops are an extension,
# far from the numbers that libp2p may use in future.

(EventBuffer,) = compile_schema("event", f'syntax = "proto2";\n{EVENT_SCHEMA}', "Message")
"""An event in protobuf."""

(ContentBuffer,) = compile_schema(
    "content",
    """
syntax = "proto3";
message Content {
  string predicate = 1;
  bytes payload = 2;
  uint64 created_us = 3;
}
""",
    "Content",
)
"""The data of an event in protobuf."""

_SIGNED_FIRST = b"libp2p-pubsub:"
_SEQUENCE = Struct(">II")
"""The incarnation, then the number: later events have larger sequences."""
_TIME_END_US = 1 << 56
"""Times before this can be written as dates."""


@dataclass(frozen=True, kw_only=True)
class EventLimits:
    """Limits on received events and predicates."""

    peer_bytes_max: int = 128
    predicate_bytes_max: int = 64 * 1024
    attributes_max: int = ATTRIBUTES_MAX
    payload_bytes_max: int = 1 << 20


# --- writing ---


def event_bytes(event: Publication) -> bytes:
    """An event as libp2p's pubsub writes it, signed and without hops."""
    written: bytes = EventBuffer(**event_fields(event)).SerializeToString()
    return written


def signing_bytes(id: EventId, predicate: Predicate, payload: bytes, created_us: int = 0) -> bytes:
    """The bytes that a publisher signs: the event without its hops, which change on the way."""
    signed: bytes = EventBuffer(
        **_unsigned_fields(id, predicate, payload, created_us)
    ).SerializeToString()
    return _SIGNED_FIRST + signed


def event_fields(event: Publication) -> dict[str, object]:
    """The fields of an event's message."""
    id, predicate, payload, signature, _, created_us = event
    return _unsigned_fields(id, predicate, payload, created_us) | {"signature": signature}


def _unsigned_fields(
    id: EventId, predicate: Predicate, payload: bytes, created_us: int
) -> dict[str, object]:
    text = predicate_text(predicate)
    content = ContentBuffer(predicate=text, payload=payload, created_us=created_us)
    return {
        "publisher": id.publisher,
        "data": content.SerializeToString(),
        "seqno": sequence_of(id),
        "topic": TOPIC,
    }


def sequence_of(id: EventId) -> bytes:
    """The incarnation and the number of an event, in eight bytes."""
    return _SEQUENCE.pack(id.incarnation, id.number)


def predicate_text(predicate: Predicate) -> str:
    """The text of a predicate, its attributes in the order in which they were written."""
    return _text_of(tuple(predicate.attributes.items()), predicate)


# Equal predicates may have their attributes in different orders, so the order is part of the key.
@lru_cache(maxsize=1 << 14)
def _text_of(items: tuple[tuple[str, object], ...], predicate: Predicate) -> str:  # noqa: ARG001
    return str(predicate)


# --- reading ---


def read_event(data: bytes, limits: EventLimits) -> Publication:
    """Decode an event that `event_bytes` has written."""
    buffer = parsed(EventBuffer, data, "event")
    if buffer.topic != TOPIC:
        raise WireError(f"an event in another topic than {TOPIC!r}")
    return event_in(buffer, limits)


def event_in(buffer: Any, limits: EventLimits) -> Publication:
    """The event in a message of pubsub."""
    limit("a signature", buffer.signature, SIGNATURE_BYTES)
    id = event_id(buffer.publisher, buffer.seqno, limits)
    content = parsed(ContentBuffer, buffer.data, "predicate and payload")
    limit("a payload", content.payload, limits.payload_bytes_max)
    if content.created_us >= _TIME_END_US:
        raise WireError("an event of a time that no clock shows")
    predicate = read_predicate(content.predicate, limits)
    return Publication.of(id, predicate, content.payload, buffer.signature, content.created_us)


def event_id(publisher: bytes, sequence: bytes, limits: EventLimits) -> EventId:
    """The id of an event, from its publisher and its sequence."""
    if len(sequence) != SEQUENCE_BYTES:
        raise WireError(f"a sequence of {len(sequence)} bytes; it has {SEQUENCE_BYTES}")
    if not publisher:
        raise WireError("an event has no publisher")
    limit("a peer id", publisher, limits.peer_bytes_max)
    return EventId(publisher, *_SEQUENCE.unpack(sequence))


def read_predicate(text: str, limits: EventLimits) -> Predicate:
    """Parse a predicate."""
    limit("a predicate", text.encode(), limits.predicate_bytes_max)
    try:
        return Predicate.parse(text, limits.attributes_max)
    except PredicateError as error:
        raise WireError(f"a predicate that cannot be read: {error}") from error
