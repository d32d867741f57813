"""How long bundles are on the wire, without encoding them.

The simulator asks for every message, so what is sent most is measured without further ado.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from smartpubsub.kademlia.keys import field_bytes, varint_bytes
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.scoutsubs import parts
from smartpubsub.protocols.scoutsubs.parts import Bundle, Part
from smartpubsub.protocols.wire_sizes import (
    FLAG_BYTES,
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

_WITH_EVENT = (parts.Notify, parts.Raise, parts.Record)


def wire_bytes(bundle: Bundle) -> int:
    """The length of a bundle in protobuf, with the varint before it that frames it."""
    size = sum([field_bytes(_part(part)) for part in bundle.parts])
    return size + varint_bytes(size)


def event_bytes_in(part: Part) -> int:
    """How many bytes of events a part brings."""
    if isinstance(part, parts.Recalled):
        return sum([event.wire_bytes for event in part.events])
    return part.event.wire_bytes if isinstance(part, _WITH_EVENT) else 0


def entry_bytes(entry: Any) -> int:
    """About how long an entry of a list in a part is."""
    if isinstance(entry, Predicate):
        return of_predicate(entry)
    if isinstance(entry, parts.ChildCopy):
        return _child(entry)
    if isinstance(entry, parts.Record):
        return field_bytes(_record(entry))
    if isinstance(entry, bytes):
        return field_bytes(len(entry))
    name, children = entry
    return field_bytes(of_text(name) + _children(children))


def _part(part: Part) -> int:
    """The length of a part in a bundle, without the tag that stands before it there."""
    kind = type(part)
    length = field_bytes(_SIZES[kind](part))
    return length + 1 if kind in _WITH_LONG_TAG else length


def _id(id: EventId) -> int:
    publisher, incarnation, number = id
    return field_bytes(of_bytes(publisher) + of_number(incarnation) + of_number(number))


def _children(children: Iterable[parts.ChildCopy]) -> int:
    return sum(map(_child, children))


def _child(child: parts.ChildCopy) -> int:
    return field_bytes(
        child.contact.wire_bytes
        + of_number(child.incarnation)
        + of_number(child.version)
        + of_predicates(child.filters)
        + of_contact(child.direct)
        + of_contacts(child.backups)
    )


# --- parts ---


def _notify(part: parts.Notify) -> int:
    event, attribute, hops, is_resend, on_behalf = part
    size = field_bytes(event.wire_bytes) + of_text(attribute) + of_number(hops)
    if is_resend:
        size += FLAG_BYTES
    return size + field_bytes(len(on_behalf)) if on_behalf else size


def _confirm(part: parts.Confirm) -> int:
    id, attribute, on_behalf, signature = part
    size = _id(id) + of_text(attribute) + of_bytes(signature)
    return size + field_bytes(len(on_behalf)) if on_behalf else size


def _no_copy(part: parts.NoCopy) -> int:
    return _id(part.id) + of_text(part.attribute) + of_bytes(part.on_behalf)


def _about_event(part: parts.Done | parts.Want) -> int:
    return _id(part.id) + of_text(part.attribute)


def _completed(part: parts.Completed) -> int:
    return _id(part.id) + of_text(part.attribute) + of_bytes(part.signature)


def _recorded(part: parts.Recorded) -> int:
    flag = of_flag(part.is_full)
    return _id(part.id) + of_text(part.attribute) + flag + of_bytes(part.signature)


def _tree_copied(part: parts.TreeCopied) -> int:
    return of_text(part.attribute) + of_number(part.version) + of_flag(part.is_full)


def _admitted(part: parts.Admitted) -> int:
    return (
        _id(part.id)
        + of_text(part.attribute)
        + of_text(part.refusal)
        + of_bytes(part.signature)
        + sum(field_bytes(of_bytes(peer) + of_bytes(signed)) for peer, signed in part.holders)
    )


def _offer(part: parts.Offer) -> int:
    return _id(part.id) + of_text(part.attribute) + of_predicate(part.predicate)


def _elsewhere(part: parts.Elsewhere) -> int:
    return of_text(part.attribute) + of_predicates(part.others)


def _raise(part: parts.Raise) -> int:
    return (
        field_bytes(part.event.wire_bytes)
        + of_text(part.attribute)
        + of_number(part.previous)
        + of_number(part.hops)
        + of_flag(part.is_retry)
        + of_flag(part.wants_all)
        + of_number(part.age_ms)
        + of_flag(part.is_permitted)
    )


def _announce(part: parts.Announce) -> int:
    return (
        of_text(part.attribute)
        + of_number(part.incarnation)
        + of_number(part.version)
        + of_number(part.base + 1)
        + of_predicates(part.added)
        + of_predicates(part.removed)
        + of_contact(part.direct)
        + of_contacts(part.backups)
        + of_flag(part.is_retry)
        + of_bytes(part.signature)
        + of_number(part.root_ms)
        + of_number(part.stage)
    )


def _announced(part: parts.Announced) -> int:
    return (
        of_text(part.attribute)
        + of_number(part.incarnation)
        + of_number(part.version)
        + of_number(part.in_force)
        + of_flag(part.wants_whole)
        + of_contact(part.go_to)
        + of_bytes(part.signature)
        + of_number(part.stage)
    )


def _copy_tree(part: parts.CopyTree) -> int:
    return (
        of_text(part.attribute)
        + of_flag(part.is_root)
        + of_number(part.version)
        + of_flag(part.is_whole)
        + _children(part.children)
        + of_peers(part.gone)
        + of_number(part.stage)
    )


def _record(part: parts.Record) -> int:
    return (
        field_bytes(part.event.wire_bytes)
        + of_text(part.attribute)
        + of_number(part.hops)
        + of_flag(part.wants_all)
        + of_number(part.age_ms)
    )


def _pulled(part: parts.Pulled) -> int:
    return (
        of_text(part.attribute)
        + of_flag(part.was_root)
        + of_bytes(part.owner)
        + _children(part.children)
        + sum(field_bytes(_record(record)) for record in part.records)
        + of_number(part.stage)
    )


def _pulled_own(part: parts.PulledOwn) -> int:
    return sum(field_bytes(of_text(name) + _children(children)) for name, children in part.trees)


def _recall(part: parts.Recall) -> int:
    return (
        of_text(part.attribute)
        + of_number(part.number)
        + of_predicate(part.predicate)
        + of_number(part.since_us)
        + sum([_id(id) for id in (part.after, part.about) if id is not None])
        + of_number(part.newest)
    )


def _recalled(part: parts.Recalled) -> int:
    return (
        of_text(part.attribute)
        + of_number(part.number)
        + sum([field_bytes(event.wire_bytes) for event in part.events])
        + of_flag(part.has_more)
        + of_number(part.oldest_us)
        + of_number(part.whole_us)
    )


def _inherit(part: parts.Inherit) -> int:
    spans = [sum(map(of_number, span)) for span in part.spans]
    return (
        of_text(part.attribute)
        + of_number(part.whole_us)
        + sum(map(field_bytes, spans))
        + of_flag(part.is_answer)
    )


def _piece(part: parts.Piece) -> int:
    numbers = of_number(part.number) + of_number(part.place) + of_number(part.pieces)
    return numbers + field_bytes(_part(part.part))


_SIZES: dict[type, Callable[[Any], int]] = {
    parts.Piece: _piece,
    parts.Notify: _notify,
    parts.Confirm: _confirm,
    parts.Raise: _raise,
    parts.Admitted: _admitted,
    parts.Announce: _announce,
    parts.Announced: _announced,
    parts.Probe: lambda part: of_number(part.number),
    parts.Alive: lambda part: of_number(part.number) + of_number(part.incarnation),
    parts.Record: _record,
    parts.Recorded: _recorded,
    parts.Done: _about_event,
    parts.Completed: _completed,
    parts.CopyTree: _copy_tree,
    parts.TreeCopied: _tree_copied,
    parts.NoCopy: _no_copy,
    parts.Pull: lambda part: of_text(part.attribute),
    parts.Pulled: _pulled,
    parts.PullOwn: lambda _: 0,
    parts.PulledOwn: _pulled_own,
    parts.Adopt: lambda part: of_text(part.attribute) + of_bytes(part.instead_of),
    parts.Offer: _offer,
    parts.Want: _about_event,
    parts.Elsewhere: _elsewhere,
    parts.Recall: _recall,
    parts.Recalled: _recalled,
    parts.Inherit: _inherit,
}

_WITH_LONG_TAG = frozenset(
    {
        parts.Pull,
        parts.Pulled,
        parts.PullOwn,
        parts.PulledOwn,
        parts.Adopt,
        parts.Offer,
        parts.Want,
        parts.Elsewhere,
        parts.Piece,
        parts.Recall,
        parts.Recalled,
        parts.Inherit,
    }
)
"""Those whose number in a bundle is beyond 15."""
