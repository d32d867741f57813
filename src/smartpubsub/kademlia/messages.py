"""The messages of the libp2p kad-dht protocol, and how many bytes each takes on the wire.

The simulator never encodes anything; `wire_bytes` tells it what encoding would give. A test holds
the two equal.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from operator import attrgetter
from typing import NamedTuple

from smartpubsub.kademlia.keys import Contact, field_bytes, varint_bytes

_contact_bytes: Callable[[Contact], int] = attrgetter("wire_bytes")


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
    kind, key, record, closer, providers = message
    size = 2 if kind else 0  # A zero is the default and is not written.
    if key:
        size += field_bytes(len(key))
    if record is not None:
        size += field_bytes(sum(field_bytes(len(part)) for part in record if part))
    size += sum(map(_contact_bytes, closer))
    if providers:
        size += sum(map(_contact_bytes, providers))
    return size + varint_bytes(size)
