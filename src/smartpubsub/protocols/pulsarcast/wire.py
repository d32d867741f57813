"""Parcels as they go over a connection: protobuf, each after its length.

What comes from others is checked before anything is made of it, but for blocks, which the core
judges. Parts and fields that are not known are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from smartpubsub.kademlia.keys import Contact, field_bytes, varint_bytes
from smartpubsub.kademlia.protobuf import WireError, framed, limit, parsed, unframed
from smartpubsub.kademlia.settings import Settings
from smartpubsub.protocols.pulsarcast import parts
from smartpubsub.protocols.pulsarcast.blocks import is_cid
from smartpubsub.protocols.pulsarcast.parts import Head, Parcel, Part, Spread
from smartpubsub.protocols.pulsarcast.schema import PART_NAMES, ParcelBuffer

_NUMBER_MAX = (1 << 63) - 1
_CLASSES: dict[str, Any] = {name: getattr(parts, message) for message, name in PART_NAMES.items()}


@dataclass(frozen=True, kw_only=True)
class ParcelLimits:
    """The most that is taken of what others send in one parcel."""

    parcel_bytes_max: int = 4 << 20
    part_count_max: int = 10_000
    entry_count_max: int = 10_000
    """How many blocks, names and heads there may be in all lists together."""
    refusal_bytes_max: int = 1024
    contacts: Settings = field(default_factory=Settings)


def wire_bytes(parcel: Parcel) -> int:
    """The length of a parcel in protobuf, with the varint before it that frames it."""
    said = parcel.parts
    if len(said) == 1 and type(said[0]) is Spread:  # Nearly all are of this kind.
        block, hops = said[0]
        size = field_bytes(len(block)) + 1 + varint_bytes(hops)
        size = field_bytes(field_bytes(size))
        return size + varint_bytes(size)
    return len(encode(parcel))


def encode(parcel: Parcel) -> bytes:
    """A parcel with its length before it."""
    buffer = ParcelBuffer()
    for part in parcel.parts:
        buffer.parts.add(**{PART_NAMES[type(part).__name__]: _written(part)})
    return framed(buffer.SerializeToString())


def decode(data: bytes, limits: ParcelLimits) -> Parcel:
    """The one parcel that is there with its length before it, if it keeps to the limits."""
    buffer = parsed(ParcelBuffer, unframed(data, limits.parcel_bytes_max), "parcel")
    limit("a parcel", buffer.parts, limits.part_count_max, "parts")
    reading = _Reading(limits)
    named = [(part, part.WhichOneof("part")) for part in buffer.parts]
    return Parcel(tuple(reading.part(getattr(part, name), name) for part, name in named if name))


def contacts_in(parcel: Parcel) -> Iterable[Contact]:
    """The peers that a parcel names, whom its receiver may have to reach."""
    for part in parcel.parts:
        if isinstance(part, parts.Elsewhere) and part.go_to is not None:
            yield part.go_to


def _written(values: Any) -> dict[str, object]:
    fields = zip(values._fields, values, strict=True)
    return {name: _WRITE[name](value) if name in _WRITE else value for name, value in fields}


def _head_written(head: Head | None) -> dict[str, object] | None:
    return None if head is None else head._asdict()


_WRITE: dict[str, Callable[[Any], object]] = {
    "heads": lambda heads: [head._asdict() for head in heads],
    "after": _head_written,
    "go_to": lambda c: None if c is None else {"id": c.peer, "addrs": c.addresses},
}


class _Reading:
    def __init__(self, limits: ParcelLimits) -> None:
        self._limits = limits
        self._entries = 0
        self._read: dict[str, Callable[[Any], object]] = {
            "room": _cid,
            "topic": _cid,
            "cids": self._cids,
            "wanted": self._cids,
            "had": self._cids,
            "covered": self._cids,
            "blocks": self._many,
            "heads": lambda heads: tuple(map(_head, self._many(heads))),
            "refusal": self._refusal,
        }

    def part(self, buffer: Any, name: str) -> Part:
        kind = _CLASSES[name]
        read: Part = kind(*(self._field(buffer, field) for field in kind._fields))
        return read

    def _field(self, buffer: Any, name: str) -> object:
        if name == "after":
            return _head(buffer.after) if buffer.HasField("after") else None
        if name == "go_to":
            return self._contact(buffer.go_to) if buffer.HasField("go_to") else None
        value = getattr(buffer, name)
        if name in self._read:
            return self._read[name](value)
        return _number(value) if type(value) is int else value

    def _many(self, values: Any) -> tuple[Any, ...]:
        self._entries += len(values)
        if self._entries > self._limits.entry_count_max:
            raise WireError(f"a parcel of more than {self._limits.entry_count_max} entries")
        return tuple(values)

    def _cids(self, values: Any) -> tuple[bytes, ...]:
        return tuple(map(_cid, self._many(values)))

    def _refusal(self, text: str) -> str:
        limit("a refusal", text, self._limits.refusal_bytes_max)
        return text

    def _contact(self, peer: Any) -> Contact:
        taken = self._limits.contacts
        limit("a peer id", peer.id, taken.peer_bytes_max)
        limit("a contact", peer.addrs, taken.address_count_max, "addresses")
        for address in peer.addrs:
            limit("an address", address, taken.address_bytes_max)
        return Contact.of(peer.id, tuple(peer.addrs))


def _number(value: int) -> int:
    if value > _NUMBER_MAX:
        raise WireError(f"a number of {value}; at most {_NUMBER_MAX} is taken")
    return value


def _cid(cid: bytes) -> bytes:
    if not is_cid(cid):
        raise WireError("bytes that are no content id")
    return cid


def _head(head: Any) -> Head:
    return Head(_cid(head.cid), _number(head.height))
