"""The messages of libp2p's pubsub, which Floodsub and GossipSub share.

All content is in one topic: a protocol that knows only topics cannot tell which events match a
predicate, so every event goes to every node, and the receiver matches it. The schema is libp2p's,
and `Rpc` holds the part of it that these protocols use: the decoder ignores other topics, unknown
fields and fields without a meaning here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from smartpubsub.kademlia.keys import field_bytes, varint_bytes
from smartpubsub.kademlia.protobuf import (
    WireError,
    compile_schema,
    framed,
    limit,
    parsed,
    unframed,
)
from smartpubsub.protocols.event_messages import (
    EVENT_SCHEMA,
    EventLimits,
    event_id,
    event_in,
)
from smartpubsub.protocols.publication import (
    SEQUENCE_BYTES,
    SIGNATURE_BYTES,
    TOPIC,
    EventId,
    Publication,
    sequence_of,
)

(RpcBuffer,) = compile_schema(
    "pubsub",
    """
syntax = "proto2";
message RPC {
  repeated SubOpts subscriptions = 1;
  repeated Message publish = 2;
  optional ControlMessage control = 3;
}
message SubOpts {
  optional bool subscribe = 1;
  optional string topicid = 2;
}
message ControlMessage {
  repeated ControlIHave ihave = 1;
  repeated ControlIWant iwant = 2;
  repeated ControlGraft graft = 3;
  repeated ControlPrune prune = 4;
}
message ControlIHave {
  optional string topicID = 1;
  repeated bytes messageIDs = 2;
}
message ControlIWant {
  repeated bytes messageIDs = 1;
}
message ControlGraft {
  optional string topicID = 1;
}
message ControlPrune {
  optional string topicID = 1;
  repeated PeerInfo peers = 2;
  optional uint64 backoff = 3;
}
message PeerInfo {
  optional bytes peerID = 1;
  optional bytes signedPeerRecord = 2;
}
"""
    + EVENT_SCHEMA,
    "RPC",
)
"""An `Rpc` in protobuf."""

_TOPIC_BYTES = field_bytes(len(TOPIC))
_SUBSCRIPTION_BYTES = field_bytes(2 + _TOPIC_BYTES)
_GRAFT_BYTES = field_bytes(_TOPIC_BYTES)
_HOPS_TAG_BYTES = 2


class Copy(NamedTuple):
    """An event, and the number of links that this copy has come over when it arrives."""

    event: Publication
    hops: int


class Control(NamedTuple):
    """The control messages of GossipSub.

    A pruned peer gets no list of other peers: Kademlia finds them.
    """

    ihave: tuple[EventId, ...] = ()
    """Events that the sender has."""
    iwant: tuple[EventId, ...] = ()
    """Events that the sender asks for."""
    graft: bool = False
    """Whether the sender has taken the receiver into its mesh."""
    prune_s: int | None = None
    """For how many seconds the receiver may not join the sender's mesh; None if it may."""


class Rpc(NamedTuple):
    """Everything that one peer sends to another at once."""

    subscribe: bool | None = None
    """Whether the sender wants events from now on; None if that has not changed."""
    publish: tuple[Copy, ...] = ()
    control: Control | None = None


@dataclass(frozen=True, kw_only=True)
class RpcLimits(EventLimits):
    """Limits on one received message."""

    message_bytes_max: int = 1 << 20
    """libp2p's own limit."""
    event_count_max: int = 1_000
    id_count_max: int = 5_000
    """How many events a message may offer, and how many it may ask for."""
    part_count_max: int = 100
    """How many subscriptions a message may have, and how many control messages of each sort."""
    backoff_s_max: int = 24 * 3600
    hops_max: int = 1 << 16


# --- sizes ---


def wire_bytes(rpc: Rpc) -> int:
    """The length of `encode(rpc)`."""
    size = 0
    for event, hops in rpc.publish:
        size += field_bytes(event.wire_bytes + _HOPS_TAG_BYTES + varint_bytes(hops))
    if rpc.subscribe is not None:
        size += _SUBSCRIPTION_BYTES
    if rpc.control is not None:
        size += field_bytes(_control_bytes(rpc.control))
    return size + varint_bytes(size)


def _control_bytes(control: Control) -> int:
    size = _GRAFT_BYTES if control.graft else 0
    if control.ihave:
        size += field_bytes(_TOPIC_BYTES + _ids_bytes(control.ihave))
    if control.iwant:
        size += field_bytes(_ids_bytes(control.iwant))
    if control.prune_s is not None:
        size += field_bytes(_TOPIC_BYTES + 1 + varint_bytes(control.prune_s))
    return size


def _ids_bytes(ids: Iterable[EventId]) -> int:
    return sum([field_bytes(len(id.publisher) + SEQUENCE_BYTES) for id in ids])


# --- encoding ---


def encode(rpc: Rpc) -> bytes:
    """A message with its length before it.

    >>> encode(Rpc(subscribe=True)).hex(" ", 8)
    '110a 0f0801120b736d61 7274707562737562'
    """
    buffer = RpcBuffer()
    if rpc.subscribe is not None:
        buffer.subscriptions.add(subscribe=rpc.subscribe, topicid=TOPIC)
    for event, hops in rpc.publish:
        copy = buffer.publish.add()
        copy.MergeFromString(event.encoded)
        copy.hops = hops
    if rpc.control is not None:
        buffer.control.SetInParent()  # An empty one differs from none.
        _fill(buffer.control, rpc.control)
    return framed(buffer.SerializeToString())


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
    return [id.publisher + sequence_of(id) for id in ids]


# --- decoding ---


def decode(data: bytes, limits: RpcLimits) -> Rpc:
    """Decode one message with its length before it."""
    buffer = parsed(RpcBuffer, unframed(data, limits.message_bytes_max), "pubsub message")
    _limit_entries("subscriptions", buffer.subscriptions, limits)
    limit("a list of events", buffer.publish, limits.event_count_max, "events")
    ours = [entry.subscribe for entry in buffer.subscriptions if entry.topicid == TOPIC]
    return Rpc(
        ours[-1] if ours else None,
        tuple(_copy(event, limits) for event in buffer.publish if event.topic == TOPIC),
        _control(buffer.control, limits) if buffer.HasField("control") else None,
    )


def _copy(buffer: Any, limits: RpcLimits) -> Copy:
    # Other implementations of libp2p's pubsub know no shared signatures, and do not count hops: an
    # event has come over at least one link. The maximum lets later nodes add to the number.
    limit("a signature", buffer.signature, SIGNATURE_BYTES)
    return Copy(event_in(buffer, limits), min(max(1, buffer.hops), limits.hops_max))


def _control(buffer: Any, limits: RpcLimits) -> Control:
    for entries, name in (
        (buffer.ihave, "offers"),
        (buffer.iwant, "requests"),
        (buffer.graft, "grafts"),
        (buffer.prune, "prunes"),
    ):
        _limit_entries(name, entries, limits)
    prunes = [entry.backoff for entry in buffer.prune if entry.topicID == TOPIC]
    if prunes and prunes[-1] > limits.backoff_s_max:
        raise WireError(f"a backoff of {prunes[-1]} s; at most {limits.backoff_s_max} s are taken")
    return Control(
        _ids([entry for entry in buffer.ihave if entry.topicID == TOPIC], limits),
        _ids(buffer.iwant, limits),
        any(entry.topicID == TOPIC for entry in buffer.graft),
        prunes[-1] if prunes else None,
    )


def _ids(entries: Iterable[Any], limits: RpcLimits) -> tuple[EventId, ...]:
    written = [id for entry in entries for id in entry.messageIDs]
    limit("a list of ids", written, limits.id_count_max, "ids")
    return tuple(event_id(id[:-SEQUENCE_BYTES], id[-SEQUENCE_BYTES:], limits) for id in written)


def _limit_entries(name: str, entries: Any, limits: RpcLimits) -> None:
    limit(f"a list of {name}", entries, limits.part_count_max, name)
