"""How long fields of messages are on the wire, with the byte of tag before each, without encoding.

The simulator asks for every message, so the lengths of texts and predicates are remembered.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from smartpubsub.kademlia.keys import Contact, field_bytes, varint_bytes
from smartpubsub.predicates import Predicate

FLAG_BYTES = 2


# --- fields: what is nothing is not written ---


def of_number(value: int) -> int:
    """A number."""
    if value < 128:
        return 2 if value else 0
    return 1 + varint_bytes(value)


def of_flag(value: bool) -> int:
    """True or false."""
    return FLAG_BYTES if value else 0


@lru_cache(maxsize=1 << 16)
def of_text(value: str) -> int:
    """A text."""
    return of_bytes(value.encode())


def of_bytes(value: bytes) -> int:
    """A peer id, a signature and the like."""
    return field_bytes(len(value)) if value else 0


def of_contact(contact: Contact | None) -> int:
    """A peer with its addresses, if there is one."""
    return contact.wire_bytes if contact else 0


# Equal predicates are equally long, whatever the order of their attributes.
@lru_cache(maxsize=1 << 16)
def of_predicate(predicate: Predicate) -> int:
    """A predicate."""
    return field_bytes(len(str(predicate).encode()))


# --- lists: what is nothing is written too ---


def of_peers(peers: Iterable[bytes]) -> int:
    """Several peer ids."""
    return sum([field_bytes(len(peer)) for peer in peers])


def of_contacts(contacts: Iterable[Contact]) -> int:
    """Several peers with their addresses."""
    return sum([contact.wire_bytes for contact in contacts])


def of_predicates(predicates: Iterable[Predicate]) -> int:
    """Several predicates."""
    return sum(map(of_predicate, predicates))
