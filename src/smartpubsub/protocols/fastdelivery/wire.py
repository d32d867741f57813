"""Packets as they go over a connection: protobuf, each after its length.

What comes from others is checked before anything is made of it. Parts and fields that are not known
are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.protobuf import WireError, framed, limit, parsed, unframed
from smartpubsub.kademlia.settings import Settings
from smartpubsub.predicates import Predicate
from smartpubsub.predicates.names import NAME_BYTES_MAX
from smartpubsub.protocols.fastdelivery import parts
from smartpubsub.protocols.fastdelivery.parts import GroupId, Packet
from smartpubsub.protocols.fastdelivery.schema import PART_NAMES, PacketBuffer
from smartpubsub.protocols.publication import SIGNATURE_BYTES
from smartpubsub.protocols.rpc_wire import RpcLimits, event_bytes, read_event, read_predicate
from smartpubsub.seam import Peer

__all__ = ["PacketLimits", "WireError", "decode", "encode"]

_NUMBER_MAX = (1 << 63) - 1
HOPS_MAX = 2
"""Nobody passes on what has come over two links."""


@dataclass(frozen=True, kw_only=True)
class PacketLimits:
    """The most that is taken of what others send in one packet."""

    packet_bytes_max: int = 4 << 20
    entry_count_max: int = 100_000
    """How many predicates, peers and the like there may be in all lists together."""
    text_bytes_max: int = 1024
    """Of a refusal, and of the name of a region."""
    events: RpcLimits = field(default_factory=RpcLimits)
    """Also for every predicate."""
    contacts: Settings = field(default_factory=Settings)
    """Also for every peer id."""


def encode(packet: Packet) -> bytes:
    """A packet with its length before it.

    >>> encode(Packet(7, parts.Got(is_wanted=True))).hex(" ")
    '06 08 07 1a 02 08 01'
    """
    part = packet.part
    buffer = PacketBuffer(number=packet.number, **{PART_NAMES[type(part).__name__]: _written(part)})
    return framed(buffer.SerializeToString())


def wire_bytes(packet: Packet) -> int:
    """How long a packet is on the wire."""
    return len(encode(packet))


def decode(data: bytes, limits: PacketLimits) -> Packet:
    """The one packet that is there with its length before it, if it keeps to the limits."""
    buffer = parsed(PacketBuffer, unframed(data, limits.packet_bytes_max), "packet")
    name = buffer.WhichOneof("part")
    if name is None:
        raise WireError("a packet without a part that is known")
    taken = _Taken(limits)
    return Packet(
        _number(buffer.number, taken), _read(_CLASSES[name], getattr(buffer, name), taken)
    )


# --- writing ---


def _written(values: Any) -> dict[str, object]:
    """A part, or what is in one, as protobuf takes it."""
    fields = zip(values._fields, values, strict=True)
    return {name: _WRITE[name](value) if name in _WRITE else value for name, value in fields}


def _written_if_any(values: Any) -> dict[str, object] | None:
    return None if values is None else _written(values)


def _each_written(many: Iterable[Any]) -> list[dict[str, object]]:
    return [_written(values) for values in many]


def _contact_written(contact: Contact) -> dict[str, object]:
    return {"id": contact.peer, "addrs": contact.addresses}


def _contacts_written(contacts: Iterable[Contact]) -> list[dict[str, object]]:
    return [_contact_written(contact) for contact in contacts]


# Equal predicates may be written in different orders, so the order is part of what is remembered.
@lru_cache(maxsize=1 << 14)
def _text_of(items: tuple[tuple[str, object], ...], predicate: Predicate) -> str:  # noqa: ARG001
    return str(predicate)


def _predicate_written(predicate: Predicate) -> str:
    return _text_of(tuple(predicate.attributes.items()), predicate)


_WRITE: dict[str, Callable[[Any], object]] = {
    "event": event_bytes,
    "contact": _contact_written,
    **dict.fromkeys(("landmarks", "closer"), _contacts_written),
    "group": _predicate_written,
    "predicate": _predicate_written,
    "predicates": lambda predicates: [_predicate_written(each) for each in predicates],
    "notice": _written,
    "request": _written,
    "watch": _written_if_any,
    "after_group": _written_if_any,
    **dict.fromkeys(("notices", "requests", "posted", "watched", "charges"), _each_written),
}
"""By the names of fields, which mean the same in all parts; others are written as they are."""


# --- reading ---


class _Taken:
    """Limits, and how much of them is used up."""

    def __init__(self, limits: PacketLimits) -> None:
        self.limits = limits
        self._entry_count = 0

    def add(self, entries: Sized) -> None:
        """Count the entries of a list, before anything is made of them."""
        self._entry_count += len(entries)
        if self._entry_count > self.limits.entry_count_max:
            raise WireError(f"lists of more than {self.limits.entry_count_max} entries together")


def _read(made: Any, buffer: Any, taken: _Taken) -> Any:
    return made(*[_READ[name](getattr(buffer, name), taken) for name in made._fields])


def _each(read: Callable[[Any, _Taken], Any]) -> Callable[[Any, _Taken], tuple[Any, ...]]:
    def read_each(buffers: Any, taken: _Taken) -> tuple[Any, ...]:
        taken.add(buffers)
        return tuple(read(buffer, taken) for buffer in buffers)

    return read_each


def _of(made: Any) -> Callable[[Any, _Taken], Any]:
    return lambda buffer, taken: _read(made, buffer, taken)


def _if_any(read: Callable[[Any, _Taken], Any]) -> Callable[[Any, _Taken], Any]:
    return lambda buffer, taken: read(buffer, taken) if buffer.ByteSize() else None


def _flag(value: bool, _: _Taken) -> bool:
    return value


def _number(value: int, _: _Taken) -> int:
    if value > _NUMBER_MAX:
        raise WireError(f"a number of {value}; at most {_NUMBER_MAX} is taken")
    return value


def _hops(value: int, _: _Taken) -> int:
    return min(value, HOPS_MAX)


def _attribute(name: str, _: _Taken) -> str:
    if not name:
        raise WireError("an attribute has no name")
    limit("an attribute", name.encode(), NAME_BYTES_MAX)
    return name


def _text(text: str, taken: _Taken) -> str:
    limit("a text", text.encode(), taken.limits.text_bytes_max)
    return text


def _signature(signature: bytes, _: _Taken) -> bytes:
    limit("a signature", signature, SIGNATURE_BYTES)
    return signature


def _peer(peer: Peer, taken: _Taken) -> Peer:
    limit("a peer id", peer, taken.limits.contacts.peer_bytes_max)
    return peer


def _contact(buffer: Any, taken: _Taken) -> Contact:
    limits = taken.limits.contacts
    if not buffer.id:
        raise WireError("a peer has no id")
    limit("a list of addresses", buffer.addrs, limits.address_count_max, "addresses")
    for address in buffer.addrs:
        limit("an address", address, limits.address_bytes_max)
    return Contact.of(_peer(buffer.id, taken), tuple(buffer.addrs))


def _predicate(text: str, taken: _Taken) -> Predicate:
    return read_predicate(text, taken.limits.events)


_READ: dict[str, Callable[[Any, _Taken], object]] = {
    "event": lambda data, taken: read_event(data, taken.limits.events),
    "attribute": _attribute,
    **dict.fromkeys(("refusal", "region"), _text),
    **dict.fromkeys(("term", "wanted", "granted", "capacity", "version", "life_s"), _number),
    "hops": _hops,
    **dict.fromkeys(("is_more", "is_resend", "is_wanted"), _flag),
    **dict.fromkeys(("owner", "peer", "after"), _peer),
    **dict.fromkeys(("only", "gone", "unreached"), _each(_peer)),
    **dict.fromkeys(("signature", "invitation", "known"), _signature),
    "contact": _contact,
    **dict.fromkeys(("landmarks", "closer"), _each(_contact)),
    "round_trips": _each(_number),
    **dict.fromkeys(("group", "predicate"), _predicate),
    "predicates": _each(_predicate),
    "notice": _of(parts.Notice),
    "notices": _each(_of(parts.Notice)),
    "request": _of(parts.Request),
    "requests": _each(_of(parts.Request)),
    "watch": _if_any(_of(parts.Request)),
    "after_group": _if_any(_of(GroupId)),
    "posted": _each(_of(parts.Posted)),
    "watched": _each(_of(parts.Watched)),
    "charges": _each(_of(parts.Charge)),
}
"""By the names of fields, which mean the same in all parts."""

_CLASSES: dict[str, Any] = {name: getattr(parts, kind) for kind, name in PART_NAMES.items()}
