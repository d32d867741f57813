"""How long packets are on the wire, without encoding them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from smartpubsub.kademlia.keys import field_bytes, varint_bytes
from smartpubsub.protocols.fastdelivery.parts import Notice, Packet
from smartpubsub.protocols.fastdelivery.schema import PART_NAMES
from smartpubsub.protocols.wire_sizes import (
    of_bytes,
    of_contact,
    of_contacts,
    of_flag,
    of_number,
    of_peers,
    of_predicate,
    of_predicates,
    of_text,
)

_SHORT_TAGS = 14
"""So many kinds of part have a tag of one byte in a packet, after the number."""


def wire_bytes(packet: Packet) -> int:
    """The length of a packet in protobuf, with the varint before it that frames it."""
    number, part = packet
    kind = type(part)
    size = of_number(number) + field_bytes(_of(part)) + (kind.__name__ in _LONG_TAGS)
    return size + varint_bytes(size)


def _of(values: Any) -> int:
    """The length of all fields of a part, or of what is in one."""
    return sum([_SIZES[name](value) for name, value in zip(values._fields, values, strict=True)])


def _each(values: Iterable[Any]) -> int:
    return sum([field_bytes(_of(each)) for each in values])


def _one(values: Any) -> int:
    return 0 if values is None else field_bytes(_of(values))


def _notice(notice: Notice) -> int:
    contact, predicate, signature = notice
    return field_bytes(contact.wire_bytes + of_predicate(predicate) + of_bytes(signature))


def _round_trips(values: Iterable[int]) -> int:
    size = sum(map(varint_bytes, values))  # Numbers of a list stand in one field.
    return field_bytes(size) if size else 0


_SIZES: dict[str, Callable[[Any], int]] = {
    "event": lambda event: field_bytes(event.wire_bytes),
    **dict.fromkeys(("attribute", "refusal", "region"), of_text),
    **dict.fromkeys(
        ("term", "wanted", "granted", "capacity", "version", "life_s", "hops"), of_number
    ),
    **dict.fromkeys(("prior", "incarnation", "number"), of_number),
    **dict.fromkeys(("is_more", "is_resend", "is_wanted"), of_flag),
    **dict.fromkeys(("owner", "peer", "after", "signature", "invitation", "known"), of_bytes),
    **dict.fromkeys(("only", "gone", "unreached"), of_peers),
    "contact": of_contact,
    **dict.fromkeys(("landmarks", "closer"), of_contacts),
    "round_trips": _round_trips,
    **dict.fromkeys(("group", "predicate"), of_predicate),
    "predicates": of_predicates,
    "notice": _notice,
    "notices": lambda notices: sum(map(_notice, notices)),
    **dict.fromkeys(("request", "watch", "after_group"), _one),
    **dict.fromkeys(("posted", "watched", "charges", "turns"), _each),
}
"""By the names of fields, which mean the same in all parts."""

_LONG_TAGS = frozenset(list(PART_NAMES)[_SHORT_TAGS:])
