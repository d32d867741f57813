"""Receipts: the proof that replicas hold an event."""

from __future__ import annotations

import base64
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import base58

from smartpubsub.node.api.choices import Wait
from smartpubsub.node.errors import NodeError
from smartpubsub.node.identity import peer_text
from smartpubsub.node.signing import is_evidence
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Held
from smartpubsub.protocols.scoutsubs.attestation import held_claim


class ReceiptError(NodeError):
    """A document that is not a receipt."""


def replicas_of(held: Iterable[Held]) -> int:
    """How many nodes hold an event, by its least replicated attribute; 0 if none has signed."""
    holders: dict[str, dict[bytes, None]] = {}
    for each in held:
        holders.setdefault(each.attribute, {})[each.peer] = None
    return min(map(len, holders.values()), default=0)


@dataclass(frozen=True)
class Receipt:
    """A published event, with the signatures of its replicas."""

    event_id: EventId
    waited_for: Wait
    held: tuple[Held, ...] = ()
    """The rendezvous of each attribute and its replicas; empty if the protocol signs nothing."""
    replicas_wanted: int = 0
    """How many nodes hold an event if the network has enough nodes."""

    @property
    def replicas(self) -> int | None:
        """How many nodes hold the event, by its least replicated attribute; None if not known."""
        return replicas_of(self.held) or None

    @property
    def id(self) -> str:
        """The event's id, as in `Event.id`."""
        return str(self.event_id)

    def __repr__(self) -> str:
        # Without the evidence, which has hundreds of bytes for each replica.
        kept = "" if self.replicas is None else f", {self.replicas} of {self.replicas_wanted}"
        return f"Receipt({self.id!r}, {self.waited_for.value!r}{kept})"

    def verify(self) -> bool:
        """Verify all signatures; False if there are none.

        Verification needs only the receipt: a peer's id contains its key.
        """
        return bool(self.held) and all(map(self._is_held, self.held))

    def _is_held(self, held: Held) -> bool:
        claim = held_claim(self.event_id, held.attribute, held.evidence)
        return claim is not None and is_evidence(held.peer, *claim)

    def document(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "id": self.id,
            "waited_for": self.waited_for.value,
            "publisher": peer_text(self.event_id.publisher),
            "incarnation": self.event_id.incarnation,
            "number": self.event_id.number,
            "replicas": self.replicas,
            "replicas_wanted": self.replicas_wanted,
            "held": [held_document(held) for held in self.held],
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Receipt:
        """Convert from JSON."""
        try:
            id = EventId(
                base58.b58decode(document["publisher"]),
                int(document["incarnation"]),
                int(document["number"]),
            )
            held = tuple(map(read_held, document["held"]))
            wanted = int(document.get("replicas_wanted", 0))
            return cls(id, Wait(document["waited_for"]), held, wanted)
        except (KeyError, TypeError, ValueError, AttributeError, Base64Error) as error:
            raise ReceiptError(f"the document is not a receipt: {error!r}") from None


@dataclass(frozen=True)
class TopicReceipt(Receipt):
    """A published event of a topic."""

    content_id: str | None = None
    """The id that readers see; None if it is not known yet."""


def held_document(held: Held) -> dict[str, str]:
    """Convert the signature of one replica, with its path to what was signed, to JSON."""
    return {
        "attribute": held.attribute,
        "peer": peer_text(held.peer),
        "signature": base64.b64encode(held.evidence).decode(),
    }


def read_held(document: Mapping[str, Any]) -> Held:
    """Convert the signature of one replica from JSON."""
    return Held(
        str(document["attribute"]),
        base58.b58decode(document["peer"]),
        base64.b64decode(document["signature"], validate=True),
    )
