"""The responses of a node."""

from __future__ import annotations

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.messages import Kind, Message, Record
from smartpubsub.kademlia.table import RoutingTable
from smartpubsub.kademlia.values import ValueStore


def answer_to(
    message: Message, asker: bytes, table: RoutingTable, values: ValueStore, now: int
) -> Message:
    """The response to a query."""
    kind, name = message.kind, message.key
    if kind is Kind.PING:
        return Message(kind)
    closer = _closer(table, name, asker)
    if kind is Kind.GET_VALUE:
        value = values.get(name, now)
        found = None if value is None else Record(name, value)
        return Message(kind, name, found, closer)
    if kind is Kind.GET_PROVIDERS:
        return Message(kind, name, None, closer, tuple(values.providers(name, now)))
    return Message(Kind.FIND_NODE, name, None, closer)


def answer_to_put(
    message: Message, asker: bytes, values: ValueStore, now: int, republish_at: int
) -> Message:
    """Store a value if it is valid, and return the response."""
    name, record = message.key, message.record
    kept = (
        record is not None
        and record.key == name
        and values.put(name, record.value, now, republish_at, asker)
    )
    # libp2p answers with the record; here, a response without one means that it was not stored.
    return Message(Kind.PUT_VALUE, name, record if kept else None)


def _closer(table: RoutingTable, name: bytes, asker: bytes) -> tuple[Contact, ...]:
    # The requester itself is left out; one peer fewer is cheaper than searching further buckets.
    known = table.closest_in_any_order(key_of(name))
    return tuple([contact for contact in known if contact.peer != asker])
