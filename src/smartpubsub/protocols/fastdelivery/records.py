"""What an owner keeps through crashes: its groups, and who is in them."""

from __future__ import annotations

from collections.abc import Sequence

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.group import Group, everybody_may, nobody_may_yet
from smartpubsub.protocols.fastdelivery.office import NAME, Office
from smartpubsub.protocols.fastdelivery.parts import Join, Packet, Request, canonical_text
from smartpubsub.protocols.fastdelivery.wire import PacketLimits, decode, encode
from smartpubsub.seam import Load, Peer

_GROUP = b"group/"
_MEMBER = b"member/"
_UNDATED = 1
"""The number of the packet that a member is kept as, if it does not say when that was."""
STORED = NAME.encode() + b"/"


class Records:
    """Groups and members in storage."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def load(self) -> None:
        """Have everything come that was stored."""
        self._office.do(Load(STORED))

    def put_group(self, group: Group) -> None:
        """Keep a group, and how it is to be had."""
        has_contract = group.contract is not everybody_may
        flags = bytes([group.is_advertised, group.is_private, has_contract])
        self._office.store(_GROUP + _text(group.predicate), flags)

    def put_member(self, group: Group, request: Request) -> None:
        """Keep a member, as it has said itself what it wants, and when that was."""
        peer = request.contact.peer
        number = max(_UNDATED, group.renewed_us[peer])
        content = encode(Packet(number, Join(group.predicate, request, b"")))
        self._office.store(_member_key(group, peer), content)

    def drop_member(self, group: Group, peer: Peer) -> None:
        """Keep a member no longer."""
        self._office.store(_member_key(group, peer), None)

    def on_loaded(self, values: Sequence[tuple[bytes, bytes]]) -> None:
        """The node has started again: it has its groups again, and their members."""
        owning = self._office.owning
        for key, value in values:
            kind, _, about = key.removeprefix(STORED).partition(b"/")
            if kind + b"/" == _GROUP:
                is_advertised, is_private, has_contract = map(bool, value)
                owning.create(
                    Predicate.parse(about.decode(), attributes_max=len(about)),
                    is_advertised=is_advertised,
                    is_private=is_private,
                    contract=nobody_may_yet if has_contract else everybody_may,
                )
            elif kind + b"/" == _MEMBER:
                number, part = decode(value, PacketLimits())
                assert isinstance(part, Join)
                renewed_us = self._office.now if number == _UNDATED else number
                owning.restore(part.group, part.request, renewed_us)


def _text(predicate: Predicate) -> bytes:
    return canonical_text(predicate).encode()


def _member_key(group: Group, peer: Peer) -> bytes:
    return _MEMBER + _text(group.predicate) + b"/" + peer
