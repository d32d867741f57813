"""Parcels as they go over a connection: protobuf, each after its length.

What comes from others is checked before anything is made of it, but for blocks, which the core
judges. Parts and fields that are not known are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from smartpubsub.kademlia.keys import Contact, field_bytes, varint_bytes
from smartpubsub.kademlia.protobuf import WireError, framed, limit, parsed, unframed
from smartpubsub.protocols import wire_fields as fields
from smartpubsub.protocols.blocks import is_cid
from smartpubsub.protocols.pulsarcast import parts
from smartpubsub.protocols.pulsarcast.parts import Head, Parcel, Part, Spread
from smartpubsub.protocols.pulsarcast.schema import PART_NAMES, ParcelBuffer
from smartpubsub.protocols.wire_fields import FieldLimits, Read, Taken, Write, each, if_any

_CLASSES: dict[str, Any] = {name: getattr(parts, message) for message, name in PART_NAMES.items()}


@dataclass(frozen=True, kw_only=True)
class ParcelLimits(FieldLimits):
    """The most that is taken of what others send in one parcel."""

    parcel_bytes_max: int = 4 << 20
    part_count_max: int = 10_000
    entry_count_max: int = 10_000
    """How many blocks, names and heads there may be in all lists together."""


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
    taken = Taken(limits)
    named = [(part, part.WhichOneof("part")) for part in buffer.parts]
    return Parcel(
        tuple(_read_part(getattr(part, name), name, taken) for part, name in named if name)
    )


def contacts_in(parcel: Parcel) -> Iterable[Contact]:
    """The peers that a parcel names, whom its receiver may have to reach."""
    for part in parcel.parts:
        if isinstance(part, parts.Elsewhere) and part.go_to is not None:
            yield part.go_to


# --- writing ---


def _written(values: Any) -> dict[str, object]:
    return fields.fields_written(values, _WRITE)


def _head_written(head: Head | None) -> dict[str, object] | None:
    return None if head is None else head._asdict()


_WRITE: dict[str, Write] = {
    "heads": lambda heads: [head._asdict() for head in heads],
    "after": _head_written,
    "go_to": fields.contact_written,
}
"""By the names of fields, which mean the same in all parts; others are written as they are."""


# --- reading ---


def _read_part(buffer: Any, name: str, taken: Taken) -> Part:
    part: Part = fields.fields_read(_CLASSES[name], buffer, taken, _READ)
    return part


def _cid(cid: bytes, _: Taken) -> bytes:
    if not is_cid(cid):
        raise WireError("bytes that are no content id")
    return cid


def _head(head: Any, taken: Taken) -> Head:
    return Head(_cid(head.cid, taken), fields.number(head.height, taken))


_NUMBERS = ("hops", "below", "number", "start", "turn", "first_turn", "since_us", "newest")

_READ: dict[str, Read] = {
    **dict.fromkeys(("room", "topic"), _cid),
    **dict.fromkeys(("cids", "wanted", "had", "covered", "gone"), each(_cid)),
    **dict.fromkeys(("block", "draft", "wants_answer", "has_more"), fields.as_it_is),
    "blocks": each(fields.as_it_is),
    **dict.fromkeys(_NUMBERS, fields.number),
    "heads": each(_head),
    "after": if_any(_head),
    "go_to": if_any(fields.contact),
    "refusal": fields.text,
}
"""By the names of fields, which mean the same in all parts."""
