"""The messages of libp2p's pubsub, which Floodsub and GossipSub share, and their size on the wire.

All content is in one topic: a protocol that knows topics only cannot tell which of them a predicate
asks for, so everything goes to everyone, and whoever receives it looks whether it is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from smartpubsub.kademlia.keys import field_bytes, varint_bytes
from smartpubsub.protocols.publication import SEQUENCE_BYTES, TOPIC, EventId, Publication

_TOPIC_BYTES = field_bytes(len(TOPIC))
_SUBSCRIPTION_BYTES = field_bytes(2 + _TOPIC_BYTES)
_GRAFT_BYTES = field_bytes(_TOPIC_BYTES)
# An extension of ours, which others pass over: over how many links an event has come.
_HOPS_TAG_BYTES = 2


class Copy(NamedTuple):
    """An event, and over how many links this copy of it has come when it arrives."""

    event: Publication
    hops: int


class Control(NamedTuple):
    """What GossipSub says beside events.

    Nobody who is pruned is told of other peers: Kademlia finds them.
    """

    ihave: tuple[EventId, ...] = ()
    """Events that the sender has."""
    iwant: tuple[EventId, ...] = ()
    """Events that the sender would like to be sent."""
    graft: bool = False
    """Whether the sender has taken the receiver into its mesh."""
    prune_s: int | None = None
    """For how many seconds the receiver may not come into the sender's mesh; None if it may."""


class Rpc(NamedTuple):
    """What one peer says to another at once."""

    subscribe: bool | None = None
    """Whether the sender wants to be sent events from now on; None if nothing has changed."""
    publish: tuple[Copy, ...] = ()
    control: Control | None = None


def wire_bytes(rpc: Rpc) -> int:
    """The length of a message in protobuf, with the varint before it that frames it."""
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
