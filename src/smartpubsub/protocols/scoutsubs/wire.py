"""Bundles as they go over a connection: protobuf, each after its length.

What comes from others is checked before anything is made of it. Parts and fields that are not known
are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass, field
from typing import Any

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.protobuf import WireError, framed, limit, parsed, unframed
from smartpubsub.kademlia.settings import Settings
from smartpubsub.predicates import Predicate
from smartpubsub.predicates.names import NAME_BYTES_MAX
from smartpubsub.protocols.publication import SIGNATURE_BYTES, EventId
from smartpubsub.protocols.rpc_wire import RpcLimits, event_bytes, read_event, read_predicate
from smartpubsub.protocols.scoutsubs import parts
from smartpubsub.protocols.scoutsubs.parts import Bundle, ChildCopy, Holder, Part, Record
from smartpubsub.protocols.scoutsubs.schema import PART_NAMES, BundleBuffer, PartBuffer
from smartpubsub.seam import Peer

__all__ = ["BundleLimits", "WireError", "decode", "encode", "part_bytes"]

_NUMBER_MAX = (1 << 63) - 1
HOPS_MAX = 1 << 16
"""Half of what fits, for a node sends on what it has received and one more than that."""


@dataclass(frozen=True, kw_only=True)
class BundleLimits:
    """The most that is taken of what others send in one bundle."""

    bundle_bytes_max: int = 4 << 20
    part_count_max: int = 10_000
    entry_count_max: int = 100_000
    """How many predicates, peers, children, events and trees there may be in all lists together."""
    refusal_bytes_max: int = 1024
    events: RpcLimits = field(default_factory=RpcLimits)
    """Also for every predicate."""
    contacts: Settings = field(default_factory=Settings)
    """Also for every peer id."""


def encode(bundle: Bundle) -> bytes:
    """A bundle with its length before it.

    >>> encode(Bundle((parts.Pull("surf"),))).hex(" ")
    '0b 0a 09 82 01 06 0a 04 73 75 72 66'
    """
    buffer = BundleBuffer()
    for part in bundle.parts:
        buffer.parts.add(**{PART_NAMES[type(part).__name__]: _written(part)})
    return framed(buffer.SerializeToString())


def part_bytes(part: Part) -> bytes:
    """One part, as it stands in a bundle."""
    written: bytes = PartBuffer(
        **{PART_NAMES[type(part).__name__]: _written(part)}
    ).SerializeToString()
    return written


def decode(data: bytes, limits: BundleLimits) -> Bundle:
    """The one bundle that is there with its length before it, if it keeps to the limits."""
    buffer = parsed(BundleBuffer, unframed(data, limits.bundle_bytes_max), "bundle")
    limit("a bundle", buffer.parts, limits.part_count_max, "parts")
    taken = _Taken(limits)
    named = [(part, part.WhichOneof("part")) for part in buffer.parts]
    return Bundle(
        tuple(_read_part(getattr(part, name), name, taken) for part, name in named if name)
    )


# --- writing ---


def _written(values: Any) -> dict[str, object]:
    """A part, or what is in one, as protobuf takes it."""
    fields = zip(values._fields, values, strict=True)
    return {name: _WRITE[name](value) if name in _WRITE else value for name, value in fields}


def _each_written(many: Iterable[Any]) -> list[dict[str, object]]:
    return [_written(values) for values in many]


def _contact_written(contact: Contact | None) -> dict[str, object] | None:
    return {"id": contact.peer, "addrs": contact.addresses} if contact else None


def _contacts_written(contacts: Iterable[Contact]) -> list[dict[str, object] | None]:
    return [_contact_written(contact) for contact in contacts]


def _predicates_written(predicates: Iterable[Predicate]) -> list[str]:
    return [str(predicate) for predicate in predicates]


def _trees_written(trees: Iterable[tuple[str, tuple[ChildCopy, ...]]]) -> list[dict[str, object]]:
    return [{"attribute": name, "children": _each_written(children)} for name, children in trees]


_WRITE: dict[str, Callable[[Any], object]] = {
    "part": lambda part: {PART_NAMES[type(part).__name__]: _written(part)},
    "id": _written,
    "event": event_bytes,
    "base": lambda base: base + 1,
    "predicate": str,
    "added": _predicates_written,
    "removed": _predicates_written,
    "filters": _predicates_written,
    "others": _predicates_written,
    "contact": _contact_written,
    "direct": _contact_written,
    "go_to": _contact_written,
    "backups": _contacts_written,
    "children": _each_written,
    "records": _each_written,
    "holders": _each_written,
    "trees": _trees_written,
}
"""By the names of fields, which mean the same in all parts; others are written as they are."""


# --- reading ---


class _Taken:
    """Limits, and how much of them is used up."""

    def __init__(self, limits: BundleLimits) -> None:
        self.limits = limits
        self._entry_count = 0

    def add(self, entries: Sized) -> None:
        """Count the entries of a list, before anything is made of them."""
        self._entry_count += len(entries)
        if self._entry_count > self.limits.entry_count_max:
            raise WireError(f"lists of more than {self.limits.entry_count_max} entries together")


def _read_part(buffer: Any, name: str, taken: _Taken) -> Part:
    part: Part = _read(_PART_CLASSES[name], buffer, taken)
    return part


def _part_in_piece(buffer: Any, taken: _Taken) -> Part:
    name = buffer.WhichOneof("part")
    if name is None or name == "piece":
        raise WireError("a piece of no part")
    return _read_part(getattr(buffer, name), name, taken)


def _read(made: Any, buffer: Any, taken: _Taken) -> Any:
    return made(*[_READ[name](getattr(buffer, name), taken) for name in made._fields])


def _each_read(made: Any, buffers: Any, taken: _Taken) -> tuple[Any, ...]:
    taken.add(buffers)
    return tuple(_read(made, buffer, taken) for buffer in buffers)


def _flag(value: bool, _: _Taken) -> bool:
    return value


def _number(value: int, _: _Taken) -> int:
    if value > _NUMBER_MAX:
        raise WireError(f"a number of {value}; at most {_NUMBER_MAX} is taken")
    return value


def _hops(value: int, _: _Taken) -> int:
    # Whoever says more is wrong, and the number has to grow on the way.
    return min(value, HOPS_MAX)


def _attribute(name: str, _: _Taken) -> str:
    if not name:
        raise WireError("an attribute has no name")
    limit("an attribute", name.encode(), NAME_BYTES_MAX)
    return name


def _refusal(text: str, taken: _Taken) -> str:
    limit("a refusal", text.encode(), taken.limits.refusal_bytes_max)
    return text


def _id(buffer: Any, taken: _Taken) -> EventId:
    if not buffer.publisher:
        raise WireError("an event has no publisher")
    return EventId(_peer(buffer.publisher, taken), buffer.incarnation, buffer.number)


def _peer(peer: Peer, taken: _Taken) -> Peer:
    limit("a peer id", peer, taken.limits.contacts.peer_bytes_max)
    return peer


def _signature(signature: bytes, _: _Taken) -> bytes:
    limit("a signature", signature, SIGNATURE_BYTES)
    return signature


def _holders(buffers: Any, taken: _Taken) -> tuple[Holder, ...]:
    limit("a list of holders", buffers, taken.limits.contacts.contact_count_max, "holders")
    return _each_read(Holder, buffers, taken)


def _peers(peers: Any, taken: _Taken) -> tuple[Peer, ...]:
    taken.add(peers)
    return tuple(_peer(peer, taken) for peer in peers)


def _contact(buffer: Any, taken: _Taken) -> Contact:
    limits = taken.limits.contacts
    if not buffer.id:
        raise WireError("a peer has no id")
    limit("a list of addresses", buffer.addrs, limits.address_count_max, "addresses")
    for address in buffer.addrs:
        limit("an address", address, limits.address_bytes_max)
    return Contact.of(_peer(buffer.id, taken), tuple(buffer.addrs))


def _contact_if_any(buffer: Any, taken: _Taken) -> Contact | None:
    return _contact(buffer, taken) if buffer.ByteSize() else None


def _contacts(buffers: Any, taken: _Taken) -> tuple[Contact, ...]:
    limit("a list of peers", buffers, taken.limits.contacts.contact_count_max, "peers")
    taken.add(buffers)
    return tuple(_contact(buffer, taken) for buffer in buffers)


def _predicates(texts: Any, taken: _Taken) -> tuple[Predicate, ...]:
    taken.add(texts)
    return tuple(read_predicate(text, taken.limits.events) for text in texts)


def _tree(buffer: Any, taken: _Taken) -> tuple[str, tuple[ChildCopy, ...]]:
    return _attribute(buffer.attribute, taken), _each_read(ChildCopy, buffer.children, taken)


def _trees(buffers: Any, taken: _Taken) -> tuple[tuple[str, tuple[ChildCopy, ...]], ...]:
    taken.add(buffers)
    return tuple(_tree(buffer, taken) for buffer in buffers)


_READ: dict[str, Callable[[Any, _Taken], object]] = {
    "id": _id,
    "event": lambda data, taken: read_event(data, taken.limits.events),
    "attribute": _attribute,
    "predicate": lambda text, taken: read_predicate(text, taken.limits.events),
    "refusal": _refusal,
    **dict.fromkeys(
        ("incarnation", "version", "in_force", "previous", "number", "age_ms"), _number
    ),
    **dict.fromkeys(("place", "pieces"), _number),
    "part": _part_in_piece,
    "hops": _hops,
    "base": lambda number, taken: _number(number, taken) - 1,
    **dict.fromkeys(("is_retry", "wants_whole", "wants_all", "is_resend"), _flag),
    **dict.fromkeys(("is_root", "is_whole", "was_root", "is_full"), _flag),
    **dict.fromkeys(("on_behalf", "owner", "instead_of"), _peer),
    "gone": _peers,
    "peer": _peer,
    "signature": _signature,
    "holders": _holders,
    "contact": _contact,
    "direct": _contact_if_any,
    "go_to": _contact_if_any,
    "backups": _contacts,
    **dict.fromkeys(("added", "removed", "filters", "others"), _predicates),
    "children": lambda buffers, taken: _each_read(ChildCopy, buffers, taken),
    "records": lambda buffers, taken: _each_read(Record, buffers, taken),
    "trees": _trees,
}
"""By the names of fields, which mean the same in all parts."""

_PART_CLASSES: dict[str, Any] = {name: getattr(parts, kind) for kind, name in PART_NAMES.items()}
