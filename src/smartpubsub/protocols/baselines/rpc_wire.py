"""Encodes and decodes libp2p's pubsub messages: protobuf with a length prefix.

The decoder validates every field. It ignores unknown fields, other topics, and fields that this
implementation does not use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Any

from smartpubsub.kademlia.protobuf import WireError, framed, limit, parsed, unframed
from smartpubsub.predicates import ATTRIBUTES_MAX, Predicate, PredicateError
from smartpubsub.protocols.baselines.rpc import Control, Copy, Rpc
from smartpubsub.protocols.baselines.rpc_schema import ContentBuffer, EventBuffer, RpcBuffer
from smartpubsub.protocols.publication import (
    SEQUENCE_BYTES,
    SIGNATURE_BYTES,
    TOPIC,
    EventId,
    Publication,
)

__all__ = [
    "RpcLimits",
    "WireError",
    "decode",
    "encode",
    "event_bytes",
    "read_event",
    "read_predicate",
    "signing_bytes",
]

_SIGNED_FIRST = b"libp2p-pubsub:"
_SEQUENCE = Struct(">II")
"""The incarnation, then the number: later events have larger sequences."""
_TIME_END_US = 1 << 56
"""Times in microseconds are lower; all of these can be written as dates."""


@dataclass(frozen=True, kw_only=True)
class RpcLimits:
    """Limits on the messages of other nodes."""

    message_bytes_max: int = 1 << 20
    """libp2p's own limit."""
    event_count_max: int = 1_000
    id_count_max: int = 5_000
    """How many events may be offered, and how many requested."""
    part_count_max: int = 100
    """How many subscriptions there may be, and how many control entries of each kind."""
    peer_bytes_max: int = 128
    predicate_bytes_max: int = 64 * 1024
    attributes_max: int = ATTRIBUTES_MAX
    payload_bytes_max: int = 1 << 20
    backoff_s_max: int = 24 * 3600
    hops_max: int = 1 << 16


def encode(rpc: Rpc) -> bytes:
    """Encode a message with its length prefix.

    >>> encode(Rpc(subscribe=True)).hex(" ", 8)
    '110a 0f0801120b736d61 7274707562737562'
    """
    buffer = RpcBuffer()
    if rpc.subscribe is not None:
        buffer.subscriptions.add(subscribe=rpc.subscribe, topicid=TOPIC)
    for event, hops in rpc.publish:
        copy = _signed_buffer(event)
        copy.hops = hops
        buffer.publish.append(copy)
    if rpc.control is not None:
        buffer.control.SetInParent()  # An empty control message differs from none.
        _fill(buffer.control, rpc.control)
    return framed(buffer.SerializeToString())


def decode(data: bytes, limits: RpcLimits) -> Rpc:
    """Decode one message with its length prefix; raise `WireError` if it exceeds the limits."""
    buffer = parsed(RpcBuffer, unframed(data, limits.message_bytes_max), "pubsub message")
    _limit_parts("subscriptions", buffer.subscriptions, limits)
    limit("a list of events", buffer.publish, limits.event_count_max, "events")
    ours = [entry.subscribe for entry in buffer.subscriptions if entry.topicid == TOPIC]
    return Rpc(
        ours[-1] if ours else None,
        tuple(_copy(event, limits) for event in buffer.publish if event.topic == TOPIC),
        _control(buffer.control, limits) if buffer.HasField("control") else None,
    )


def signing_bytes(id: EventId, predicate: Predicate, payload: bytes, created_us: int = 0) -> bytes:
    """Return what a publisher signs: the event without its hops, which change on the way."""
    signed: bytes = _event_buffer(id, predicate, payload, created_us).SerializeToString()
    return _SIGNED_FIRST + signed


# --- events and predicates, which other protocols encode in the same way ---


def event_bytes(event: Publication) -> bytes:
    """Encode an event as libp2p's pubsub does, signed and without hops."""
    written: bytes = _signed_buffer(event).SerializeToString()
    return written


def read_event(data: bytes, limits: RpcLimits) -> Publication:
    """Decode such an event; raise `WireError` if it exceeds the limits."""
    buffer = parsed(EventBuffer, data, "event")
    if buffer.topic != TOPIC:
        raise WireError(f"an event in another topic than {TOPIC!r}")
    return _event(buffer, limits)


def read_predicate(text: str, limits: RpcLimits) -> Predicate:
    """Parse a predicate; raise `WireError` if it exceeds the limits."""
    limit("a predicate", text.encode(), limits.predicate_bytes_max)
    try:
        return Predicate.parse(text, limits.attributes_max)
    except PredicateError as error:
        raise WireError(f"a predicate that cannot be read: {error}") from error


# --- writing ---


def _signed_buffer(event: Publication) -> Any:
    buffer = _event_buffer(event.id, event.predicate, event.payload, event.created_us)
    buffer.signature = event.signature
    return buffer


def _event_buffer(id: EventId, predicate: Predicate, payload: bytes, created_us: int) -> Any:
    content = ContentBuffer(predicate=str(predicate), payload=payload, created_us=created_us)
    return EventBuffer(
        publisher=id.publisher,
        data=content.SerializeToString(),
        seqno=_sequence(id),
        topic=TOPIC,
    )


def _fill(buffer: Any, control: Control) -> None:
    if control.ihave:
        buffer.ihave.add(topicID=TOPIC, messageIDs=_written(control.ihave))
    if control.iwant:
        buffer.iwant.add(messageIDs=_written(control.iwant))
    if control.graft:
        buffer.graft.add(topicID=TOPIC)
    if control.prune_s is not None:
        buffer.prune.add(topicID=TOPIC, backoff=control.prune_s)


def _written(ids: Iterable[EventId]) -> list[bytes]:
    return [id.publisher + _sequence(id) for id in ids]


def _sequence(id: EventId) -> bytes:
    return _SEQUENCE.pack(id.incarnation, id.number)


# --- reading ---


def _copy(buffer: Any, limits: RpcLimits) -> Copy:
    # Other implementations do not count hops; then the event has taken at least one link.
    # The upper limit leaves room for the number to grow on the way.
    return Copy(_event(buffer, limits), min(max(1, buffer.hops), limits.hops_max))


def _event(buffer: Any, limits: RpcLimits) -> Publication:
    limit("a signature", buffer.signature, SIGNATURE_BYTES)
    id = _id(buffer.publisher, buffer.seqno, limits)
    content = parsed(ContentBuffer, buffer.data, "predicate and payload")
    limit("a payload", content.payload, limits.payload_bytes_max)
    if content.created_us >= _TIME_END_US:
        raise WireError("an event of a time that no clock shows")
    predicate = read_predicate(content.predicate, limits)
    return Publication.of(id, predicate, content.payload, buffer.signature, content.created_us)


def _control(buffer: Any, limits: RpcLimits) -> Control:
    for parts, name in (
        (buffer.ihave, "offers"),
        (buffer.iwant, "requests"),
        (buffer.graft, "grafts"),
        (buffer.prune, "prunes"),
    ):
        _limit_parts(name, parts, limits)
    prunes = [part.backoff for part in buffer.prune if part.topicID == TOPIC]
    if prunes and prunes[-1] > limits.backoff_s_max:
        raise WireError(f"a backoff of {prunes[-1]} s; at most {limits.backoff_s_max} s are taken")
    return Control(
        _ids([part for part in buffer.ihave if part.topicID == TOPIC], limits),
        _ids(buffer.iwant, limits),
        any(part.topicID == TOPIC for part in buffer.graft),
        prunes[-1] if prunes else None,
    )


def _ids(parts: Iterable[Any], limits: RpcLimits) -> tuple[EventId, ...]:
    written = [id for part in parts for id in part.messageIDs]
    limit("a list of ids", written, limits.id_count_max, "ids")
    return tuple(_id(id[:-SEQUENCE_BYTES], id[-SEQUENCE_BYTES:], limits) for id in written)


def _id(publisher: bytes, sequence: bytes, limits: RpcLimits) -> EventId:
    if len(sequence) != SEQUENCE_BYTES:
        raise WireError(f"a sequence of {len(sequence)} bytes; it has {SEQUENCE_BYTES}")
    if not publisher:
        raise WireError("an event has no publisher")
    limit("a peer id", publisher, limits.peer_bytes_max)
    return EventId(publisher, *_SEQUENCE.unpack(sequence))


def _limit_parts(name: str, parts: Any, limits: RpcLimits) -> None:
    limit(f"a list of {name}", parts, limits.part_count_max, name)
