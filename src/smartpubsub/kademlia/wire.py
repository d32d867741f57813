"""Messages as they go over a connection: libp2p's kad-dht in protobuf, each after its length.

What comes from others is checked before anything is made of it. Fields that are not known, and
those that say nothing to this implementation, are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message, Record
from smartpubsub.kademlia.protobuf import WireError, framed, limit, parsed, unframed
from smartpubsub.kademlia.schema import MessageBuffer
from smartpubsub.kademlia.settings import Settings

__all__ = ["WireError", "decode", "encode"]


def encode(message: Message) -> bytes:
    """A message with its length before it.

    >>> encode(Message(Kind.FIND_NODE, b"surf")).hex(" ")
    '08 08 04 12 04 73 75 72 66'
    """
    buffer = MessageBuffer(
        type=int(message.kind),
        key=message.key,
        closerPeers=_buffers(message.closer),
        providerPeers=_buffers(message.providers),
    )
    if message.record is not None:
        # Set even if it is empty: an empty record is not the same as none.
        buffer.record.SetInParent()
        buffer.record.key, buffer.record.value = message.record
    body: bytes = buffer.SerializeToString()
    return framed(body)


def decode(data: bytes, settings: Settings) -> Message:
    """The one message that is there with its length before it, if it keeps to the limits."""
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


def _buffers(contacts: Iterable[Contact]) -> list[dict[str, object]]:
    return [{"id": contact.peer, "addrs": contact.addresses} for contact in contacts]


def _contacts(buffers: Any, settings: Settings) -> tuple[Contact, ...]:
    # Counted first: a contact costs a hash, and many fit into a message.
    limit("a list of peers", buffers, settings.contact_count_max, "peers")
    return tuple(_contact(buffer, settings) for buffer in buffers)


def _contact(buffer: Any, settings: Settings) -> Contact:
    if not buffer.id:
        raise WireError("a peer has no id")
    limit("a peer id", buffer.id, settings.peer_bytes_max)
    limit("a list of addresses", buffer.addrs, settings.address_count_max, "addresses")
    for address in buffer.addrs:
        limit("an address", address, settings.address_bytes_max)
    return Contact.of(buffer.id, tuple(buffer.addrs))
