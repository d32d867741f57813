"""The messages of libp2p's pubsub, which Floodsub and GossipSub share, and their size on the wire.

All content is in one topic: a protocol that knows topics only cannot tell which of them a predicate
asks for, so everything goes to everyone, and whoever receives it looks whether it is wanted.
"""

from __future__ import annotations

from typing import NamedTuple

from smartpubsub.kademlia.keys import field_bytes, varint_bytes
from smartpubsub.protocols.publication import TOPIC, Publication

_SUBSCRIPTION_BYTES = field_bytes(2 + field_bytes(len(TOPIC)))
# An extension of ours, which others pass over: over how many links an event has come.
_HOPS_TAG_BYTES = 2


class Copy(NamedTuple):
    """An event, and over how many links this copy of it has come when it arrives."""

    event: Publication
    hops: int


class Rpc(NamedTuple):
    """What one peer says to another at once."""

    subscribe: bool | None = None
    """Whether the sender wants to be sent events from now on; None if nothing has changed."""
    publish: tuple[Copy, ...] = ()


def wire_bytes(rpc: Rpc) -> int:
    """The length of a message in protobuf, with the varint before it that frames it."""
    size = 0
    for event, hops in rpc.publish:
        size += field_bytes(event.wire_bytes + _HOPS_TAG_BYTES + varint_bytes(hops))
    if rpc.subscribe is not None:
        size += _SUBSCRIPTION_BYTES
    return size + varint_bytes(size)
