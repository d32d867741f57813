"""How long bundles are on the wire, without encoding them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from smartpubsub.kademlia.keys import Contact, field_bytes, varint_bytes
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.scoutsubs import parts
from smartpubsub.protocols.scoutsubs.parts import Bundle

_FLAG_BYTES = 2


def wire_bytes(bundle: Bundle) -> int:
    """The length of a bundle in protobuf, with the varint before it that frames it."""
    size = sum(field_bytes(_SIZES[type(part)](part)) for part in bundle.parts)
    return size + varint_bytes(size)


def _number(value: int) -> int:
    return 1 + varint_bytes(value) if value else 0


def _flag(value: bool) -> int:
    return _FLAG_BYTES if value else 0


def _text(value: str) -> int:
    return field_bytes(len(value.encode()))


def _bytes(value: bytes) -> int:
    return field_bytes(len(value)) if value else 0


def _id(id: EventId) -> int:
    return field_bytes(
        field_bytes(len(id.publisher)) + _number(id.incarnation) + _number(id.number)
    )


def _contact(contact: Contact | None) -> int:
    return contact.wire_bytes if contact else 0


def _contacts(contacts: Iterable[Contact]) -> int:
    return sum(contact.wire_bytes for contact in contacts)


def _predicates(predicates: Iterable[Predicate]) -> int:
    return sum(_text(str(predicate)) for predicate in predicates)


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
    )


def _announced(part: parts.Announced) -> int:
    return (
        _text(part.attribute)
        + _number(part.incarnation)
        + _number(part.version)
        + _number(part.in_force)
        + _flag(part.wants_whole)
    )


def _raise(part: parts.Raise) -> int:
    return (
        field_bytes(part.event.wire_bytes)
        + _text(part.attribute)
        + _number(part.previous)
        + _number(part.hops)
        + _flag(part.is_retry)
        + _flag(part.wants_all)
    )


def _notify(part: parts.Notify) -> int:
    return (
        field_bytes(part.event.wire_bytes)
        + _text(part.attribute)
        + _number(part.hops)
        + _flag(part.is_resend)
        + _bytes(part.on_behalf)
    )


def _child(child: parts.ChildCopy) -> int:
    return field_bytes(
        child.contact.wire_bytes
        + _number(child.incarnation)
        + _number(child.version)
        + _predicates(child.filters)
        + _contact(child.direct)
        + _contacts(child.backups)
    )


def _children(children: Iterable[parts.ChildCopy]) -> int:
    return sum(map(_child, children))


def _copy(part: parts.CopyTree) -> int:
    return (
        _text(part.attribute)
        + _flag(part.is_root)
        + _number(part.version)
        + _flag(part.is_whole)
        + _children(part.children)
        + sum(map(_bytes, part.gone))
    )


def _record(part: parts.Record) -> int:
    return (
        field_bytes(part.event.wire_bytes)
        + _text(part.attribute)
        + _number(part.hops)
        + _flag(part.wants_all)
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


_SIZES: dict[type, Callable[[Any], int]] = {
    parts.Announce: _announce,
    parts.Announced: _announced,
    parts.Raise: _raise,
    parts.Admitted: lambda part: _id(part.id) + _text(part.attribute) + _text(part.refusal),
    parts.Completed: lambda part: _id(part.id) + _text(part.attribute),
    parts.Notify: _notify,
    parts.Confirm: lambda part: _id(part.id) + _text(part.attribute) + _bytes(part.on_behalf),
    parts.NoCopy: lambda part: _id(part.id) + _text(part.attribute) + _bytes(part.on_behalf),
    parts.CopyTree: _copy,
    parts.TreeCopied: lambda part: _text(part.attribute) + _number(part.version),
    parts.Record: _record,
    parts.Recorded: lambda part: _id(part.id) + _text(part.attribute),
    parts.Done: lambda part: _id(part.id) + _text(part.attribute),
    parts.Pull: lambda part: _text(part.attribute),
    parts.Pulled: _pulled,
    parts.PullOwn: lambda _: 0,
    parts.PulledOwn: _pulled_own,
    parts.Adopt: lambda part: _text(part.attribute) + _bytes(part.instead_of),
    parts.Probe: lambda part: _number(part.number),
    parts.Alive: lambda part: _number(part.number) + _number(part.incarnation),
}
