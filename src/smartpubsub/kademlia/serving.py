"""What a node answers when it is asked."""

from __future__ import annotations

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.messages import Kind, Message, Record
from smartpubsub.kademlia.table import RoutingTable
from smartpubsub.kademlia.values import ValueStore


def answer_to(
    message: Message,
    asker: bytes,
    table: RoutingTable,
    values: ValueStore,
    now: int,
    republish_at: int,
) -> Message:
    """The answer to a message; a value that is put is kept on the way, if it may be."""
    name = message.key
    match message.kind:
        case Kind.PING:
            return Message(Kind.PING)
        case Kind.PUT_VALUE:
            record = message.record
            kept = (
                record is not None
                and record.key == name
                and values.put(name, record.value, now, republish_at)
            )
            # libp2p answers with the record; here, without one it was not kept.
            return Message(Kind.PUT_VALUE, name, record if kept else None)
        case Kind.GET_VALUE:
            value = values.get(name, now)
            found = None if value is None else Record(name, value)
            return Message(Kind.GET_VALUE, name, found, _closer(table, name, asker))
        case Kind.GET_PROVIDERS:
            providers = tuple(values.providers(name, now))
            return Message(Kind.GET_PROVIDERS, name, None, _closer(table, name, asker), providers)
        case _:
            return Message(Kind.FIND_NODE, name, None, _closer(table, name, asker))


def _closer(table: RoutingTable, name: bytes, asker: bytes) -> tuple[Contact, ...]:
    # One short is better than looking through further buckets for the asker's own place.
    known = table.closest(key_of(name), table.k)
    return tuple(contact for contact in known if contact.peer != asker)
