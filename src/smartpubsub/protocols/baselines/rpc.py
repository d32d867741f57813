"""The messages of libp2p's pubsub, which Floodsub and GossipSub share, and their size on the wire.

All events are in one topic. A protocol that only knows topics cannot map predicates to them, so
every event goes to every node, and each node matches it against its subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from smartpubsub.kademlia.keys import field_bytes, varint_bytes
from smartpubsub.protocols.publication import SEQUENCE_BYTES, TOPIC, EventId, Publication

_TOPIC_BYTES = field_bytes(len(TOPIC))
_SUBSCRIPTION_BYTES = field_bytes(2 + _TOPIC_BYTES)
_GRAFT_BYTES = field_bytes(_TOPIC_BYTES)
# An extension that other implementations ignore: the number of links that an event has taken.
_HOPS_TAG_BYTES = 2


class Copy(NamedTuple):
    """An event, and how many links this copy of it has taken when it arrives."""

    event: Publication
    hops: int


class Control(NamedTuple):
    """The control messages of GossipSub.

    A prune names no other peers: Kademlia finds them.
    """

    ihave: tuple[EventId, ...] = ()
    """Events that the sender has."""
    iwant: tuple[EventId, ...] = ()
    """Events that the sender requests."""
    graft: bool = False
    """Whether the sender has taken the receiver into its mesh."""
    prune_s: int | None = None
    """For how many seconds the receiver may not join the sender's mesh; None if it may."""


class Rpc(NamedTuple):
    """One message from one peer to another."""

    subscribe: bool | None = None
    """Whether the sender subscribes or unsubscribes; None if neither."""
    publish: tuple[Copy, ...] = ()
    control: Control | None = None


def wire_bytes(rpc: Rpc) -> int:
    """Return the length of a message in protobuf, including its length prefix."""
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
