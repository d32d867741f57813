"""What nodes sign of what they say, beside events: announcements and acknowledgements.

Parts are signed when they are said and checked when they are heard, before any desk sees them. What
is said to one node is signed for that node alone. That somebody keeps an event is signed for
everybody: a publisher gets these signatures and can show them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from smartpubsub.kademlia.protobuf import framed
from smartpubsub.protocols.publication import EventId, Signing
from smartpubsub.protocols.scoutsubs.messages import (
    Admitted,
    Announce,
    Announced,
    Completed,
    Confirm,
    Part,
    Recorded,
    part_bytes,
)
from smartpubsub.seam import Peer

AnyPart = TypeVar("AnyPart", bound=Part)

FULL = "full"
"""What is signed as the refusal of a backup that has no room."""

_SAID = b"smartpubsub-said:"
_HELD = b"smartpubsub-held:"

_TO_ONE = frozenset({Announce, Announced, Confirm, Completed})
_TO_ALL = frozenset({Admitted, Recorded})


def said_bytes(part: Any, receiver: Peer) -> bytes:
    """What is signed of a part that is for one node: who it is for, and all but the signature."""
    return _SAID + framed(receiver) + part_bytes(part._replace(signature=b""))


def held_bytes(id: EventId, attribute: str, refusal: str = "") -> bytes:
    """What is signed by whoever keeps an event for an attribute, or says why it does not."""
    return _HELD + part_bytes(Admitted(id, attribute, refusal))


class Vouching:
    """Signs as one node, and checks what others have signed."""

    def __init__(self, own: Peer, signing: Signing) -> None:
        self._own = own
        self._signing = signing

    def signed(self, part: AnyPart, receiver: Peer) -> AnyPart:
        """A part as it is said: signed, if it is one of those that are."""
        kind = type(part)
        if kind not in _TO_ONE and kind not in _TO_ALL:
            return part
        signature = self._signing.vouch(_content(part, receiver))
        made: AnyPart = part._replace(signature=signature)  # type: ignore[call-arg, assignment]
        return made

    def checked(self, part: Part, sender: Peer) -> Part | None:
        """A part as it may be heard, or None if its signature is not the sender's.

        Of others' signatures in it those are left that are valid.
        """
        kind = type(part)
        if kind not in _TO_ONE and kind not in _TO_ALL:
            return part
        signature: bytes = part.signature  # type: ignore[union-attr]
        if not self._signing.is_vouched(sender, _content(part, self._own), signature):
            return None
        if isinstance(part, Admitted) and part.holders:
            return part._replace(holders=tuple(h for h in part.holders if self._holds(part, h)))
        return part

    def _holds(self, part: Admitted, holder: Any) -> bool:
        return self._signing.is_vouched(
            holder.peer, lambda: held_bytes(part.id, part.attribute), holder.signature
        )


def _content(part: Any, receiver: Peer) -> Callable[[], bytes]:
    """Made only if somebody reads it: simulated signatures do not."""
    if type(part) in _TO_ONE:
        return lambda: said_bytes(part, receiver)
    refusal = part.refusal if type(part) is Admitted else FULL if part.is_full else ""
    return lambda: held_bytes(part.id, part.attribute, refusal)
