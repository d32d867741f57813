"""The messages of the libp2p kad-dht protocol: schema, encoder, decoder and size.

The schema is libp2p's, and `Message` holds the part of it that this implementation uses: the
decoder ignores the other fields. The simulator encodes nothing; `wire_bytes` gives it the length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from operator import attrgetter
from typing import Any, NamedTuple

from smartpubsub.kademlia.keys import Contact, field_bytes, varint_bytes
from smartpubsub.kademlia.protobuf import (
    WireError,
    compile_schema,
    framed,
    limit,
    parsed,
    unframed,
)
from smartpubsub.kademlia.settings import Settings

(MessageBuffer,) = compile_schema(
    "kademlia",
    """
syntax = "proto3";
enum Kind {
  PUT_VALUE = 0;
  GET_VALUE = 1;
  ADD_PROVIDER = 2;
  GET_PROVIDERS = 3;
  FIND_NODE = 4;
  PING = 5;
}
enum Connection {
  NOT_CONNECTED = 0;
  CONNECTED = 1;
  CAN_CONNECT = 2;
  CANNOT_CONNECT = 3;
}
message Record {
  bytes key = 1;
  bytes value = 2;
  string timeReceived = 5;
}
message Peer {
  bytes id = 1;
  repeated bytes addrs = 2;
  Connection connection = 3;
}
message Message {
  Kind type = 1;
  bytes key = 2;
  Record record = 3;
  repeated Peer closerPeers = 8;
  repeated Peer providerPeers = 9;
  int32 clusterLevelRaw = 10;
}
""",
    "Message",
)
"""A `Message` in protobuf."""


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
    """A question or an answer; both have the same form."""

    kind: Kind
    key: bytes = b""
    record: Record | None = None
    closer: tuple[Contact, ...] = ()
    providers: tuple[Contact, ...] = ()


def is_acceptable(message: Message, settings: Settings) -> bool:
    """Whether a message that was not decoded, as in the simulator, is within the limits."""
    _, key, record, closer, providers = message
    return (
        len(key) <= settings.name_bytes_max
        and len(closer) <= settings.contact_count_max
        and len(providers) <= settings.contact_count_max
        and (record is None or len(record.key) <= settings.name_bytes_max)
        and (record is None or len(record.value) <= settings.value_bytes_max)
    )


# --- size ---

_contact_bytes: Callable[[Contact], int] = attrgetter("wire_bytes")


def wire_bytes(message: Message) -> int:
    """The length of `encode(message)`."""
    kind, key, record, closer, providers = message
    size = 2 if kind else 0  # A zero is the default and is not written.
    if key:
        size += field_bytes(len(key))
    if record is not None:
        size += field_bytes(sum(field_bytes(len(value)) for value in record if value))
    size += sum(map(_contact_bytes, closer))
    if providers:
        size += sum(map(_contact_bytes, providers))
    return size + varint_bytes(size)


# --- encoding ---


def encode(message: Message) -> bytes:
    """A message with its length before it.

    >>> encode(Message(Kind.FIND_NODE, b"surf")).hex(" ")
    '08 08 04 12 04 73 75 72 66'
    """
    buffer = MessageBuffer(
        type=int(message.kind),
        key=message.key,
        # An empty record differs from none.
        record=None if message.record is None else message.record._asdict(),
        closerPeers=_buffers(message.closer),
        providerPeers=_buffers(message.providers),
    )
    return framed(buffer.SerializeToString())


def _buffers(contacts: Iterable[Contact]) -> list[dict[str, object]]:
    return [{"id": contact.peer, "addrs": contact.addresses} for contact in contacts]


# --- decoding ---


def decode(data: bytes, settings: Settings) -> Message:
    """Decode one message with its length before it, and check it against the limits."""
    body = unframed(data, settings.message_bytes_max)
    buffer = parsed(MessageBuffer, body, "kad-dht message")
    limit("a name", buffer.key, settings.name_bytes_max)
    return Message(
        _kind(buffer.type),
        buffer.key,
        _record(buffer.record, settings) if buffer.HasField("record") else None,
        _contacts(buffer.closerPeers, settings),
        _contacts(buffer.providerPeers, settings),
    )


def _kind(number: int) -> Kind:
    try:
        return Kind(number)
    except ValueError:
        raise WireError(f"there is no message of type {number}") from None


def _record(buffer: Any, settings: Settings) -> Record:
    limit("the name of a record", buffer.key, settings.name_bytes_max)
    limit("a value", buffer.value, settings.value_bytes_max)
    return Record(buffer.key, buffer.value)


def _contacts(buffers: Any, settings: Settings) -> tuple[Contact, ...]:
    # The count comes first: a contact costs a hash, and many fit into a message.
    limit("a list of peers", buffers, settings.contact_count_max, "peers")
    return tuple([contact_in(buffer, settings) for buffer in buffers])


def contact_in(buffer: Any, settings: Settings) -> Contact:
    """The contact in a `Peer`."""
    if not buffer.id:
        raise WireError("a peer has no id")
    limit("a peer id", buffer.id, settings.peer_bytes_max)
    limit("a list of addresses", buffer.addrs, settings.address_count_max, "addresses")
    for address in buffer.addrs:
        limit("an address", address, settings.address_bytes_max)
    return Contact.of(buffer.id, tuple(buffer.addrs))
