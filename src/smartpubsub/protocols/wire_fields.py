"""The fields that messages of several protocols have: how they are written, and how they are read.

What is read comes from others, so it is held against limits before anything is made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.protobuf import WireError, limit
from smartpubsub.kademlia.settings import Settings
from smartpubsub.predicates import Predicate
from smartpubsub.predicates.names import NAME_BYTES_MAX
from smartpubsub.protocols.baselines.rpc_wire import RpcLimits, read_event, read_predicate
from smartpubsub.protocols.publication import SIGNATURE_BYTES, Publication
from smartpubsub.seam import Peer

NUMBER_MAX = (1 << 63) - 1


@dataclass(frozen=True, kw_only=True)
class FieldLimits:
    """The most that is taken of what others send in one message."""

    entry_count_max: int = 100_000
    """How many predicates, peers and the like there may be in all lists together."""
    text_bytes_max: int = 1024
    """Of a refusal, and of whatever else is said in words."""
    events: RpcLimits = field(default_factory=RpcLimits)
    """Also for every predicate."""
    contacts: Settings = field(default_factory=Settings)
    """Also for every peer id."""


class Taken:
    """Limits, and how much of them is used up by one message."""

    def __init__(self, limits: FieldLimits) -> None:
        self.limits = limits
        self._entry_count = 0

    def add(self, entries: Sized) -> None:
        """Count the entries of a list, before anything is made of them."""
        self._entry_count += len(entries)
        if self._entry_count > self.limits.entry_count_max:
            raise WireError(f"lists of more than {self.limits.entry_count_max} entries together")


Write: TypeAlias = Callable[[Any], object]
Read: TypeAlias = Callable[[Any, Taken], Any]


# --- writing ---


def fields_written(values: Any, write: Mapping[str, Write]) -> dict[str, object]:
    """A named tuple as protobuf takes it; fields that are not in the table are as they are."""
    fields = zip(values._fields, values, strict=True)
    return {name: write[name](value) if name in write else value for name, value in fields}


def contact_written(contact: Contact | None) -> dict[str, object] | None:
    """A peer and its addresses, if there is one."""
    return {"id": contact.peer, "addrs": contact.addresses} if contact else None


def contacts_written(contacts: Iterable[Contact]) -> list[dict[str, object] | None]:
    """Several peers."""
    return [contact_written(contact) for contact in contacts]


# --- reading ---


def fields_read(made: Any, buffer: Any, taken: Taken, read: Mapping[str, Read]) -> Any:
    """A named tuple, each of its fields read as the table says."""
    return made(*[read[name](getattr(buffer, name), taken) for name in made._fields])


def each(read: Read) -> Read:
    """A list of what is read so."""

    def read_each(values: Any, taken: Taken) -> tuple[Any, ...]:
        taken.add(values)
        return tuple([read(value, taken) for value in values])

    return read_each


def if_any(read: Read) -> Read:
    """What is read so, or None where nothing is said."""
    return lambda buffer, taken: read(buffer, taken) if buffer.ByteSize() else None


def as_it_is(value: Any, _: Taken) -> Any:
    """What has no limit of its own, such as a flag."""
    return value


def number(value: int, _: Taken) -> int:
    """A number that others can count on from."""
    if value > NUMBER_MAX:
        raise WireError(f"a number of {value}; at most {NUMBER_MAX} is taken")
    return value


def hops(hops_max: int) -> Read:
    """Over how many links something has come; whoever says more than there can be is wrong."""
    return lambda value, _: min(value, hops_max)


def attribute(name: str, _: Taken) -> str:
    """The name of an attribute."""
    if not name:
        raise WireError("an attribute has no name")
    limit("an attribute", name.encode(), NAME_BYTES_MAX)
    return name


def text(said: str, taken: Taken) -> str:
    """Something in words."""
    limit("a text", said.encode(), taken.limits.text_bytes_max)
    return said


def signature(signed: bytes, _: Taken) -> bytes:
    """A signature, or a digest."""
    limit("a signature", signed, SIGNATURE_BYTES)
    return signed


def peer(id: Peer, taken: Taken) -> Peer:
    """A peer id, or none."""
    limit("a peer id", id, taken.limits.contacts.peer_bytes_max)
    return id


def contact(buffer: Any, taken: Taken) -> Contact:
    """A peer and its addresses."""
    limits = taken.limits.contacts
    if not buffer.id:
        raise WireError("a peer has no id")
    limit("a list of addresses", buffer.addrs, limits.address_count_max, "addresses")
    for address in buffer.addrs:
        limit("an address", address, limits.address_bytes_max)
    return Contact.of(peer(buffer.id, taken), tuple(buffer.addrs))


def predicate(said: str, taken: Taken) -> Predicate:
    """A predicate."""
    return read_predicate(said, taken.limits.events)


def event(data: bytes, taken: Taken) -> Publication:
    """An event, as libp2p's pubsub writes it."""
    return read_event(data, taken.limits.events)
