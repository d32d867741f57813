"""Events as messages of libp2p's pubsub, which is how all protocols send them.

The decoder checks a message against limits before it makes an event of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smartpubsub.kademlia.protobuf import WireError, compile_schema, limit, parsed
from smartpubsub.predicates import ATTRIBUTES_MAX, Predicate, PredicateError
from smartpubsub.protocols.evidence import EVIDENCE_BYTES_MAX
from smartpubsub.protocols.publication import (
    SEQUENCE_BYTES,
    SEQUENCE_TAG,
    SIGNATURE_TAG,
    TIME_END_US,
    TOPIC,
    TOPIC_FIELD,
    EventId,
    Publication,
    id_of,
)
from smartpubsub.protocols.runtime.bounded import SharedCache

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
# libp2p calls the first field `from`, which is a keyword of Python. `hops` is an extension; its
# number is far from those that libp2p may use in future.

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

_CACHED_BYTES_MAX = 1024
"""An event up to this length is decoded once; later copies of it come from a cache."""
_NUMBER_BITS = 64
_SEQUENCE_END = len(SEQUENCE_TAG) + SEQUENCE_BYTES
_TOPIC_END = _SEQUENCE_END + len(TOPIC_FIELD)
_SIGNATURE_TAG = SIGNATURE_TAG[0]


@dataclass(frozen=True, kw_only=True)
class EventLimits:
    """Limits on received events and predicates."""

    peer_bytes_max: int = 128
    predicate_bytes_max: int = 64 * 1024
    attributes_max: int = ATTRIBUTES_MAX
    payload_bytes_max: int = 1 << 20


_small_events: SharedCache[bytes, tuple[EventLimits | None, Publication]] = SharedCache(1 << 9)
"""Recent events by their encoded form, and the limits that they were checked against."""


def read_event(data: bytes, limits: EventLimits) -> Publication:
    """Decode an event, or return the one that was decoded or published before."""
    if len(data) > _CACHED_BYTES_MAX:
        return _read_event(data, limits)
    known = _small_events.get(data)
    if known is not None and (known[0] is limits or _is_within(known[1], limits)):
        return known[1]
    event = _read_event(data, limits)
    _small_events.put(data, (limits, event))
    return event


def remember_event(event: Publication) -> None:
    """Cache an event that a node of this process publishes: peers send it back to be kept."""
    if event.wire_bytes <= _CACHED_BYTES_MAX:
        _small_events.put(event.encoded, (None, event))


def _is_within(event: Publication, limits: EventLimits) -> bool:
    """Whether an event that was checked against other limits is within these."""
    return (
        len(event.predicate.attributes) <= limits.attributes_max
        and len(event.payload) <= limits.payload_bytes_max
        and event.wire_bytes <= limits.predicate_bytes_max
        and len(event.id.publisher) <= limits.peer_bytes_max
    )


def _read_event(data: bytes, limits: EventLimits) -> Publication:
    event = _read_as_encoded(data, limits)
    if event is not None:
        return event
    buffer = parsed(EventBuffer, data, "event")
    if buffer.topic != TOPIC:
        raise WireError(f"an event in another topic than {TOPIC!r}")
    return event_in(buffer, limits)


def _read_as_encoded(data: bytes, limits: EventLimits) -> Publication | None:
    """Decode an event whose bytes are exactly those that `Publication.encoded` gives.

    The node then sends and stores the bytes as received. Return None for all other bytes, which
    protobuf decodes or refuses.
    """
    payload, created_us = b"", 0
    try:
        publisher, at = _field(data, 0, 0x0A)
        content, at = _field(data, at, 0x12)
        tail = data[at:]
        text, at = _field(content, 0, 0x0A)
        if content[at : at + 1] == b"\x12":
            payload, at = _field(content, at, 0x12)
        if at < len(content):
            if content[at] != 0x18:
                return None
            created_us, at = _varint(content, at + 1)
            if not (0 < created_us < TIME_END_US and at == len(content)):
                return None
        signature, end = _field(tail, _TOPIC_END, _SIGNATURE_TAG)
        if not (
            len(publisher) <= limits.peer_bytes_max
            and len(payload) <= limits.payload_bytes_max
            and tail.startswith(SEQUENCE_TAG)
            and tail[_SEQUENCE_END:_TOPIC_END] == TOPIC_FIELD
            and end == len(tail)
            and len(signature) <= EVIDENCE_BYTES_MAX
        ):
            return None
        predicate = read_predicate(text.decode(), limits)
        if str(predicate).encode() != text:
            return None
    except (_OtherwiseEncodedError, IndexError, UnicodeDecodeError, WireError):
        return None
    id = id_of(publisher, tail[len(SEQUENCE_TAG) : _SEQUENCE_END])
    return Publication.read(id, predicate, payload, signature, created_us, data)


class _OtherwiseEncodedError(Exception):
    """Bytes that differ from this project's encoding of events; protobuf may decode them."""


def _field(data: bytes, at: int, tag: int) -> tuple[bytes, int]:
    """The content of a field that is not empty, and the position after it."""
    length, start = data[at + 1], at + 2
    if length > 127:
        length, start = _varint(data, at + 1)
    end = start + length
    if data[at] != tag or not length or end > len(data):
        raise _OtherwiseEncodedError
    return data[start:end], end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in the fewest bytes, and the position after it."""
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    number, shift = byte & 127, 7
    while byte > 127:
        at += 1
        byte = data[at]
        if shift >= _NUMBER_BITS:
            raise _OtherwiseEncodedError
        number |= (byte & 127) << shift
        shift += 7
    if not byte:
        raise _OtherwiseEncodedError
    return number, at + 1


def event_in(buffer: Any, limits: EventLimits) -> Publication:
    """The event in a message of pubsub."""
    limit("a signature", buffer.signature, EVIDENCE_BYTES_MAX)
    id = event_id(buffer.publisher, buffer.seqno, limits)
    content = parsed(ContentBuffer, buffer.data, "predicate and payload")
    limit("a payload", content.payload, limits.payload_bytes_max)
    if content.created_us >= TIME_END_US:
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
    return id_of(publisher, sequence)


def read_predicate(text: str, limits: EventLimits) -> Predicate:
    """Parse a predicate."""
    limit("a predicate", text.encode(), limits.predicate_bytes_max)
    try:
        return Predicate.parse(text, limits.attributes_max)
    except PredicateError as error:
        raise WireError(f"a predicate that cannot be read: {error}") from error
