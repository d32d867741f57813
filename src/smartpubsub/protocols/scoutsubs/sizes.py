"""How long bundles are on the wire, without encoding them.

The simulator asks for every message, so what is sent most is measured without further ado, and the
length of a predicate is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from smartpubsub.kademlia.keys import Contact, field_bytes, varint_bytes
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.scoutsubs import parts
from smartpubsub.protocols.scoutsubs.parts import Bundle, Part

_FLAG_BYTES = 2


def wire_bytes(bundle: Bundle) -> int:
    """The length of a bundle in protobuf, with the varint before it that frames it."""
    size = sum([field_bytes(_part(part)) for part in bundle.parts])
    return size + varint_bytes(size)


def entry_bytes(entry: Any) -> int:
    """About how long an entry of a list in a part is."""
    if isinstance(entry, Predicate):
        return _predicate(entry)
    if isinstance(entry, parts.ChildCopy):
        return _child(entry)
    if isinstance(entry, parts.Record):
        return field_bytes(_record(entry))
    if isinstance(entry, bytes):
        return field_bytes(len(entry))
    name, children = entry
    return field_bytes(_text(name) + _children(children))


def _part(part: Part) -> int:
    """The length of a part in a bundle, without the tag that stands before it there."""
    kind = type(part)
    length = field_bytes(_SIZES[kind](part))
    return length + 1 if kind in _WITH_LONG_TAG else length


# --- fields: what is nothing is not written ---


def _number(value: int) -> int:
    if value < 128:
        return 2 if value else 0
    return 1 + varint_bytes(value)


def _flag(value: bool) -> int:
    return _FLAG_BYTES if value else 0


@lru_cache(maxsize=1 << 16)
def _text(value: str) -> int:
    return _bytes(value.encode())


def _bytes(value: bytes) -> int:
    return field_bytes(len(value)) if value else 0


def _id(id: EventId) -> int:
    publisher, incarnation, number = id
    return field_bytes(_bytes(publisher) + _number(incarnation) + _number(number))


def _contact(contact: Contact | None) -> int:
    return contact.wire_bytes if contact else 0


# --- lists: what is nothing is written too ---


def _peers(peers: Iterable[bytes]) -> int:
    return sum([field_bytes(len(peer)) for peer in peers])


def _contacts(contacts: Iterable[Contact]) -> int:
    return sum([contact.wire_bytes for contact in contacts])


def _predicates(predicates: Iterable[Predicate]) -> int:
    return sum(map(_predicate, predicates))


# Equal predicates are equally long, whatever the order of their attributes.
@lru_cache(maxsize=1 << 16)
def _predicate(predicate: Predicate) -> int:
    return field_bytes(len(str(predicate).encode()))


def _children(children: Iterable[parts.ChildCopy]) -> int:
    return sum(map(_child, children))


def _child(child: parts.ChildCopy) -> int:
    return field_bytes(
        child.contact.wire_bytes
        + _number(child.incarnation)
        + _number(child.version)
        + _predicates(child.filters)
        + _contact(child.direct)
        + _contacts(child.backups)
    )


# --- parts ---


def _notify(part: parts.Notify) -> int:
    event, attribute, hops, is_resend, on_behalf = part
    size = field_bytes(event.wire_bytes) + _text(attribute) + _number(hops)
    if is_resend:
        size += _FLAG_BYTES
    return size + field_bytes(len(on_behalf)) if on_behalf else size


def _confirm(part: parts.Confirm) -> int:
    id, attribute, on_behalf, signature = part
    size = _id(id) + _text(attribute) + _bytes(signature)
    return size + field_bytes(len(on_behalf)) if on_behalf else size


def _no_copy(part: parts.NoCopy) -> int:
    return _id(part.id) + _text(part.attribute) + _bytes(part.on_behalf)


def _about_event(part: parts.Done | parts.Want) -> int:
    return _id(part.id) + _text(part.attribute)


def _completed(part: parts.Completed) -> int:
    return _id(part.id) + _text(part.attribute) + _bytes(part.signature)


def _recorded(part: parts.Recorded) -> int:
    flag = _flag(part.is_full)
    return _id(part.id) + _text(part.attribute) + flag + _bytes(part.signature)


def _tree_copied(part: parts.TreeCopied) -> int:
    return _text(part.attribute) + _number(part.version) + _flag(part.is_full)


def _admitted(part: parts.Admitted) -> int:
    return (
        _id(part.id)
        + _text(part.attribute)
        + _text(part.refusal)
        + _bytes(part.signature)
        + sum(field_bytes(_bytes(peer) + _bytes(signed)) for peer, signed in part.holders)
    )


def _offer(part: parts.Offer) -> int:
    return _id(part.id) + _text(part.attribute) + _predicate(part.predicate)


def _elsewhere(part: parts.Elsewhere) -> int:
    return _text(part.attribute) + _predicates(part.others)


def _raise(part: parts.Raise) -> int:
    return (
        field_bytes(part.event.wire_bytes)
        + _text(part.attribute)
        + _number(part.previous)
        + _number(part.hops)
        + _flag(part.is_retry)
        + _flag(part.wants_all)
        + _number(part.age_ms)
    )


def _announce(part: parts.Announce) -> int:
    return (
        _text(part.attribute)
        + _number(part.incarnation)
        + _number(part.version)
        + _number(part.base + 1)
        + _predicates(part.added)
        + _predicates(part.removed)
        + _contact(part.direct)
        + _contacts(part.backups)
        + _flag(part.is_retry)
        + _bytes(part.signature)
    )


def _announced(part: parts.Announced) -> int:
    return (
        _text(part.attribute)
        + _number(part.incarnation)
        + _number(part.version)
        + _number(part.in_force)
        + _flag(part.wants_whole)
        + _contact(part.go_to)
        + _bytes(part.signature)
    )


def _copy_tree(part: parts.CopyTree) -> int:
    return (
        _text(part.attribute)
        + _flag(part.is_root)
        + _number(part.version)
        + _flag(part.is_whole)
        + _children(part.children)
        + _peers(part.gone)
    )


def _record(part: parts.Record) -> int:
    return (
        field_bytes(part.event.wire_bytes)
        + _text(part.attribute)
        + _number(part.hops)
        + _flag(part.wants_all)
        + _number(part.age_ms)
    )


def _pulled(part: parts.Pulled) -> int:
    return (
        _text(part.attribute)
        + _flag(part.was_root)
        + _bytes(part.owner)
        + _children(part.children)
        + sum(field_bytes(_record(record)) for record in part.records)
    )


def _pulled_own(part: parts.PulledOwn) -> int:
    return sum(field_bytes(_text(name) + _children(children)) for name, children in part.trees)


def _piece(part: parts.Piece) -> int:
    numbers = _number(part.number) + _number(part.place) + _number(part.pieces)
    return numbers + field_bytes(_part(part.part))


_SIZES: dict[type, Callable[[Any], int]] = {
    parts.Piece: _piece,
    parts.Notify: _notify,
    parts.Confirm: _confirm,
    parts.Raise: _raise,
    parts.Admitted: _admitted,
    parts.Announce: _announce,
    parts.Announced: _announced,
    parts.Probe: lambda part: _number(part.number),
    parts.Alive: lambda part: _number(part.number) + _number(part.incarnation),
    parts.Record: _record,
    parts.Recorded: _recorded,
    parts.Done: _about_event,
    parts.Completed: _completed,
    parts.CopyTree: _copy_tree,
    parts.TreeCopied: _tree_copied,
    parts.NoCopy: _no_copy,
    parts.Pull: lambda part: _text(part.attribute),
    parts.Pulled: _pulled,
    parts.PullOwn: lambda _: 0,
    parts.PulledOwn: _pulled_own,
    parts.Adopt: lambda part: _text(part.attribute) + _bytes(part.instead_of),
    parts.Offer: _offer,
    parts.Want: _about_event,
    parts.Elsewhere: _elsewhere,
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
    }
)
"""Those whose number in a bundle is beyond 15."""
