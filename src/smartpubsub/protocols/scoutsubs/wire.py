"""Bundles as they go over a connection: protobuf, each after its length.

What comes from others is checked before anything is made of it. Parts and fields that are not known
are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from smartpubsub.kademlia.protobuf import WireError, framed, limit, parsed, unframed
from smartpubsub.predicates import Predicate
from smartpubsub.protocols import wire_fields as fields
from smartpubsub.protocols.baselines.rpc_wire import event_bytes
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.scoutsubs import parts
from smartpubsub.protocols.scoutsubs.parts import Bundle, ChildCopy, Holder, Part, Record, Span
from smartpubsub.protocols.scoutsubs.schema import PART_NAMES, BundleBuffer, PartBuffer
from smartpubsub.protocols.scoutsubs.shard_names import EPOCH_MAX, attribute_of
from smartpubsub.protocols.wire_fields import FieldLimits, Read, Taken, Write, each, if_any

__all__ = ["BundleLimits", "WireError", "decode", "encode", "part_bytes"]

HOPS_MAX = 1 << 16
"""Half of what fits, for a node sends on what it has received and one more than that."""


@dataclass(frozen=True, kw_only=True)
class BundleLimits(FieldLimits):
    """The most that is taken of what others send in one bundle."""

    bundle_bytes_max: int = 4 << 20
    part_count_max: int = 10_000


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
    taken = Taken(limits)
    named = [(part, part.WhichOneof("part")) for part in buffer.parts]
    return Bundle(
        tuple(_read_part(getattr(part, name), name, taken) for part, name in named if name)
    )


# --- writing ---


def _written(values: Any) -> dict[str, object]:
    """A part, or what is in one, as protobuf takes it."""
    return fields.fields_written(values, _WRITE)


def _each_written(many: Iterable[Any]) -> list[dict[str, object]]:
    return [_written(values) for values in many]


def _predicates_written(predicates: Iterable[Predicate]) -> list[str]:
    return [str(predicate) for predicate in predicates]


def _trees_written(trees: Iterable[tuple[str, tuple[ChildCopy, ...]]]) -> list[dict[str, object]]:
    return [{"attribute": name, "children": _each_written(children)} for name, children in trees]


_WRITE: dict[str, Write] = {
    "part": lambda part: {PART_NAMES[type(part).__name__]: _written(part)},
    "id": _written,
    "event": event_bytes,
    "events": lambda events: [event_bytes(event) for event in events],
    **dict.fromkeys(("after", "about"), lambda id: _written(id) if id else None),
    "base": lambda base: base + 1,
    "predicate": str,
    **dict.fromkeys(("added", "removed", "filters", "others"), _predicates_written),
    **dict.fromkeys(("contact", "direct", "go_to"), fields.contact_written),
    "backups": fields.contacts_written,
    **dict.fromkeys(("children", "records", "holders", "spans"), _each_written),
    "trees": _trees_written,
}
"""By the names of fields, which mean the same in all parts; others are written as they are."""


# --- reading ---


def _read_part(buffer: Any, name: str, taken: Taken) -> Part:
    part: Part = _read(_PART_CLASSES[name], buffer, taken)
    return part


def _part_in_piece(buffer: Any, taken: Taken) -> Part:
    name = buffer.WhichOneof("part")
    if name is None or name == "piece":
        raise WireError("a piece of no part")
    return _read_part(getattr(buffer, name), name, taken)


def _read(made: Any, buffer: Any, taken: Taken) -> Any:
    return fields.fields_read(made, buffer, taken, _READ)


def _of(made: Any) -> Read:
    return lambda buffer, taken: _read(made, buffer, taken)


def _few(what: str, read: Read) -> Read:
    """A list of no more than there are peers in one answer of the overlay."""
    read_each = each(read)

    def read_few(buffers: Any, taken: Taken) -> Any:
        limit(f"a list of {what}", buffers, taken.limits.contacts.contact_count_max, what)
        return read_each(buffers, taken)

    return read_few


def _id(buffer: Any, taken: Taken) -> EventId:
    if not buffer.publisher:
        raise WireError("an event has no publisher")
    return EventId(fields.peer(buffer.publisher, taken), buffer.incarnation, buffer.number)


_children = each(_of(ChildCopy))


def _tree_name(name: str, taken: Taken) -> str:
    """The name of an attribute's tree, or of a branch of it."""
    fields.attribute(attribute_of(name), taken)
    return name


def _stage(stage: int, _: Taken) -> int:
    """A stage that others can come after."""
    if stage > EPOCH_MAX:
        raise WireError(f"a stage of {stage}; at most {EPOCH_MAX} is taken")
    return stage


def _tree(buffer: Any, taken: Taken) -> tuple[str, tuple[ChildCopy, ...]]:
    return _tree_name(buffer.attribute, taken), _children(buffer.children, taken)


_NUMBERS = (
    *("incarnation", "version", "in_force", "previous", "number"),
    *("age_ms", "root_ms", "place", "pieces", "since_us", "oldest_us", "newest"),
    *("whole_us", "amount", "digest"),
)
_FLAGS = (
    *("is_retry", "wants_whole", "wants_all", "is_resend", "is_permitted"),
    *("is_root", "is_whole", "was_root", "is_full", "has_more", "is_answer"),
)

_READ: dict[str, Read] = {
    "id": _id,
    "event": fields.event,
    "events": each(fields.event),
    **dict.fromkeys(("after", "about"), if_any(_id)),
    "attribute": _tree_name,
    "stage": _stage,
    "predicate": fields.predicate,
    "refusal": fields.text,
    **dict.fromkeys(_NUMBERS, fields.number),
    "part": _part_in_piece,
    "hops": fields.hops(HOPS_MAX),
    "base": lambda number, taken: fields.number(number, taken) - 1,
    **dict.fromkeys(_FLAGS, fields.as_it_is),
    **dict.fromkeys(("on_behalf", "owner", "instead_of", "peer"), fields.peer),
    "gone": each(fields.peer),
    "signature": fields.signature,
    "holders": _few("holders", _of(Holder)),
    "contact": fields.contact,
    **dict.fromkeys(("direct", "go_to"), if_any(fields.contact)),
    "backups": _few("peers", fields.contact),
    **dict.fromkeys(("added", "removed", "filters", "others"), each(fields.predicate)),
    "children": _children,
    "records": each(_of(Record)),
    "spans": each(_of(Span)),
    "trees": each(_tree),
}
"""By the names of fields, which mean the same in all parts."""

_PART_CLASSES: dict[str, Any] = {name: getattr(parts, kind) for kind, name in PART_NAMES.items()}
