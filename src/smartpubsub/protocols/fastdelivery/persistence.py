"""Persists an owner's groups and their members."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.protobuf import WireError
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.event_messages import EventLimits
from smartpubsub.protocols.fastdelivery.component import FastOutbox
from smartpubsub.protocols.fastdelivery.messages import (
    Join,
    Packet,
    Request,
    canonical_text,
    decode,
    encode,
)
from smartpubsub.protocols.runtime.messages import MessageLimits
from smartpubsub.seam import Load, Peer

_GROUP = b"group/"
_MEMBER = b"member/"
_LIMITS = MessageLimits(events=EventLimits(attributes_max=1_000))
"""The node has checked what it stores against its own limits, which may be higher than usual."""
_UNDATED = 1
"""The packet number of a stored member whose renewal time is not known."""


class StoredGroup(NamedTuple):
    """A group of an earlier incarnation."""

    predicate: Predicate
    is_advertised: bool
    is_private: bool
    has_contract: bool


class StoredMember(NamedTuple):
    """A member of a stored group."""

    group: Predicate
    request: Request
    renewed_us: int


Stored: TypeAlias = StoredGroup | StoredMember


class GroupStore:
    """Groups and members in the node's storage."""

    def __init__(self, outbox: FastOutbox) -> None:
        self._outbox = outbox
        self.prefix = outbox.name.encode() + b"/"

    def load(self) -> None:
        """Ask the host for everything that is stored."""
        self._outbox.emit(Load(self.prefix))

    def put_group(self, group: StoredGroup) -> None:
        """Store a group and its properties."""
        flags = bytes([group.is_advertised, group.is_private, group.has_contract])
        self._outbox.store(_GROUP + _text(group.predicate), flags)

    def drop_group(self, group: Predicate) -> None:
        """Remove a group from storage."""
        self._outbox.store(_GROUP + _text(group), None)

    def put_member(self, member: StoredMember) -> None:
        """Store a member's request, and when it was renewed."""
        number = max(_UNDATED, member.renewed_us)
        content = encode(Packet(number, Join(member.group, member.request, b"")))
        self._outbox.store(_member_key(member.group, member.request.contact.peer), content)

    def drop_member(self, group: Predicate, peer: Peer) -> None:
        """Remove a member from storage."""
        self._outbox.store(_member_key(group, peer), None)

    def read(self, values: Sequence[tuple[bytes, bytes]]) -> Iterator[Stored]:
        """Read groups and members back; groups come before their members.

        Count and remove damaged values, and read the others.
        """
        for key, value in values:
            kind, _, about = key.removeprefix(self.prefix).partition(b"/")
            try:
                if kind + b"/" == _GROUP:
                    yield _read_group(about, value)
                elif kind + b"/" == _MEMBER:
                    yield self._read_member(value)
            except (WireError, ValueError, TypeError):
                self._outbox.reject("stored values")
                self._outbox.store(key.removeprefix(self.prefix), None)

    def _read_member(self, value: bytes) -> StoredMember:
        number, question = decode(value, _LIMITS)
        if not isinstance(question, Join):
            raise TypeError(f"{type(question).__name__} is no stored member")
        renewed_us = self._outbox.now if number == _UNDATED else number
        return StoredMember(question.group, question.request, renewed_us)


def _read_group(text: bytes, flags: bytes) -> StoredGroup:
    predicate = Predicate.parse(text.decode(), attributes_max=len(text))
    return StoredGroup(predicate, *map(bool, flags))


def _text(predicate: Predicate) -> bytes:
    return canonical_text(predicate).encode()


def _member_key(group: Predicate, peer: Peer) -> bytes:
    return _MEMBER + _text(group) + b"/" + peer
