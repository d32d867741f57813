"""The messages of the libp2p kad-dht protocol, and how many bytes each takes on the wire.

The simulator never encodes anything; `wire_bytes` tells it what encoding would give. A test holds
the two equal.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from smartpubsub.kademlia.keys import Contact, field_bytes, varint_bytes


class Kind(IntEnum):
    """What a message is about; the numbers are libp2p's."""

    PUT_VALUE = 0
    GET_VALUE = 1
    ADD_PROVIDER = 2
    GET_PROVIDERS = 3
    FIND_NODE = 4
    PING = 5


class Record(NamedTuple):
    """A value under a key."""

    key: bytes
    value: bytes


class Message(NamedTuple):
    """A question or an answer; both look alike."""

    kind: Kind
    key: bytes = b""
    record: Record | None = None
    closer: tuple[Contact, ...] = ()
    providers: tuple[Contact, ...] = ()


def wire_bytes(message: Message) -> int:
    """The length of a message in protobuf, with the varint before it that frames it."""
    size = 2 if message.kind else 0  # A zero is the default and is not written.
    size += field_bytes(len(message.key)) if message.key else 0
    if message.record is not None:
        size += field_bytes(sum(field_bytes(len(part)) for part in message.record if part))
    for contact in message.closer:
        size += contact.wire_bytes
    for contact in message.providers:
        size += contact.wire_bytes
    return size + varint_bytes(size)
