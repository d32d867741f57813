"""Packets as they go over a connection: protobuf, each after its length.

What comes from others is checked before anything is made of it. Parts and fields that are not known
are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from smartpubsub.kademlia.protobuf import WireError, framed, parsed, unframed
from smartpubsub.predicates import Predicate
from smartpubsub.protocols import wire_fields as fields
from smartpubsub.protocols.baselines.rpc_wire import event_bytes
from smartpubsub.protocols.fastdelivery import parts
from smartpubsub.protocols.fastdelivery.parts import GroupId, Packet
from smartpubsub.protocols.fastdelivery.schema import PART_NAMES, PacketBuffer
from smartpubsub.protocols.wire_fields import FieldLimits, Read, Taken, Write, each, if_any

__all__ = ["PacketLimits", "WireError", "decode", "encode"]

HOPS_MAX = 2
"""Nobody passes on what has come over two links."""


@dataclass(frozen=True, kw_only=True)
class PacketLimits(FieldLimits):
    """The most that is taken of what others send in one packet."""

    packet_bytes_max: int = 4 << 20


def encode(packet: Packet) -> bytes:
    """A packet with its length before it.

    >>> encode(Packet(7, parts.Got(is_wanted=True))).hex(" ")
    '06 08 07 1a 02 08 01'
    """
    part = packet.part
    buffer = PacketBuffer(number=packet.number, **{PART_NAMES[type(part).__name__]: _written(part)})
    return framed(buffer.SerializeToString())


def decode(data: bytes, limits: PacketLimits) -> Packet:
    """The one packet that is there with its length before it, if it keeps to the limits."""
    buffer = parsed(PacketBuffer, unframed(data, limits.packet_bytes_max), "packet")
    name = buffer.WhichOneof("part")
    if name is None:
        raise WireError("a packet without a part that is known")
    taken = Taken(limits)
    return Packet(
        fields.number(buffer.number, taken), _read(_CLASSES[name], getattr(buffer, name), taken)
    )


# --- writing ---


def _written(values: Any) -> dict[str, object]:
    """A part, or what is in one, as protobuf takes it."""
    return fields.fields_written(values, _WRITE)


def _written_if_any(values: Any) -> dict[str, object] | None:
    return None if values is None else _written(values)


def _each_written(many: Iterable[Any]) -> list[dict[str, object]]:
    return [_written(values) for values in many]


# Equal predicates may be written in different orders, so the order is part of what is remembered.
@lru_cache(maxsize=1 << 14)
def _text_of(items: tuple[tuple[str, object], ...], predicate: Predicate) -> str:  # noqa: ARG001
    return str(predicate)


def _predicate_written(predicate: Predicate) -> str:
    return _text_of(tuple(predicate.attributes.items()), predicate)


_WRITE: dict[str, Write] = {
    "event": event_bytes,
    "contact": fields.contact_written,
    **dict.fromkeys(("landmarks", "closer"), fields.contacts_written),
    **dict.fromkeys(("group", "predicate"), _predicate_written),
    "predicates": lambda predicates: [_predicate_written(each) for each in predicates],
    **dict.fromkeys(("notice", "request"), _written),
    **dict.fromkeys(("watch", "after_group"), _written_if_any),
    **dict.fromkeys(("notices", "posted", "watched", "charges", "turns"), _each_written),
}
"""By the names of fields, which mean the same in all parts; others are written as they are."""


# --- reading ---


def _read(made: Any, buffer: Any, taken: Taken) -> Any:
    return fields.fields_read(made, buffer, taken, _READ)


def _of(made: Any) -> Read:
    return lambda buffer, taken: _read(made, buffer, taken)


_READ: dict[str, Read] = {
    "event": fields.event,
    "attribute": fields.attribute,
    **dict.fromkeys(("refusal", "region"), fields.text),
    **dict.fromkeys(("term", "wanted", "granted", "capacity", "version", "life_s"), fields.number),
    **dict.fromkeys(("prior", "incarnation", "number"), fields.number),
    "hops": fields.hops(HOPS_MAX),
    **dict.fromkeys(("is_more", "is_resend", "is_wanted"), fields.as_it_is),
    **dict.fromkeys(("owner", "peer", "after"), fields.peer),
    **dict.fromkeys(("only", "gone", "unreached"), each(fields.peer)),
    **dict.fromkeys(("signature", "invitation", "known"), fields.signature),
    "contact": fields.contact,
    **dict.fromkeys(("landmarks", "closer"), each(fields.contact)),
    "round_trips": each(fields.number),
    **dict.fromkeys(("group", "predicate"), fields.predicate),
    "predicates": each(fields.predicate),
    "notice": _of(parts.Notice),
    "notices": each(_of(parts.Notice)),
    "request": _of(parts.Request),
    "watch": if_any(_of(parts.Request)),
    "after_group": if_any(_of(GroupId)),
    "posted": each(_of(parts.Posted)),
    "watched": each(_of(parts.Watched)),
    "charges": each(_of(parts.Charge)),
    "turns": each(_of(parts.Turn)),
}
"""By the names of fields, which mean the same in all parts."""

_CLASSES: dict[str, Any] = {name: getattr(parts, kind) for kind, name in PART_NAMES.items()}
