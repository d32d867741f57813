"""Signatures of messages other than events: announcements, confirmations, acknowledgements.

Messages are signed when they are queued and verified when they arrive, before any component sees
them. Most are signed for their receiver alone. The statement that a node stores an event is signed
for all nodes: the publisher collects these signatures and can show them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from smartpubsub.kademlia.protobuf import framed
from smartpubsub.protocols.publication import EventId, Signing
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.protocols.scoutsubs.fragments import bundles_of
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
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Peer

SignedPart = TypeVar("SignedPart", bound=Part)

FULL = "full"
"""The refusal that a replica without room signs."""

_SAID = b"smartpubsub-said:"
_HELD = b"smartpubsub-held:"

_FOR_RECEIVER = frozenset({Announce, Announced, Confirm, Completed})
_FOR_ALL = frozenset({Admitted, Recorded})


def said_bytes(part: Any, receiver: Peer) -> bytes:
    """The signed bytes of a message for one node: the receiver, and all but the signature."""
    return _SAID + framed(receiver) + part_bytes(part._replace(signature=b""))


def held_bytes(id: EventId, attribute: str, refusal: str = "") -> bytes:
    """The signed bytes of the statement that a node stores an event, or why it does not."""
    return _HELD + part_bytes(Admitted(id, attribute, refusal))


class Attestation:
    """Signs messages as one node, and verifies those of others."""

    def __init__(self, own: Peer, signing: Signing) -> None:
        self._own = own
        self._signing = signing

    def signed(self, part: SignedPart, receiver: Peer) -> SignedPart:
        """Return a message with its signature, if it is of a kind that is signed."""
        kind = type(part)
        if kind not in _FOR_RECEIVER and kind not in _FOR_ALL:
            return part
        signature = self._signing.vouch(_content(part, receiver))
        made: SignedPart = part._replace(signature=signature)  # type: ignore[call-arg, assignment]
        return made

    def verified(self, part: Part, sender: Peer) -> Part | None:
        """Return a message, or None if its signature is not the sender's.

        Invalid signatures of other nodes in it are left out.
        """
        kind = type(part)
        if kind not in _FOR_RECEIVER and kind not in _FOR_ALL:
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
    """Encode only when the bytes are needed: simulated signatures do not need them."""
    if type(part) in _FOR_RECEIVER:
        return lambda: said_bytes(part, receiver)
    refusal = part.refusal if type(part) is Admitted else FULL if part.is_full else ""
    return lambda: held_bytes(part.id, part.attribute, refusal)


class ScoutOutbox(Outbox[Part]):
    """The outbox of ScoutSubs: signs messages, bundles them, and counts what is rejected."""

    def __init__(self, settings: ScoutSettings, attestation: Attestation) -> None:
        super().__init__(
            "scout", lambda queued: bundles_of(queued, settings.piece_bytes_max), settings.batch_us
        )
        self._attestation = attestation
        self.rejected: Counter[str] = Counter()
        """Rejected messages and requests, counted by reason."""

    def queue(self, peer: Peer, part: Part) -> None:
        """Sign a message and add it to the next bundle for a peer."""
        super().queue(peer, self._attestation.signed(part, peer))

    def reject(self, reason: str) -> None:
        """Count a rejected message or request."""
        self.rejected[reason] += 1
