"""What a publisher can show for an event: who keeps it, each with a signature that says so."""

from __future__ import annotations

import base64
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import base58

from smartpubsub.node.api.calls import Wait
from smartpubsub.node.errors import NodeError
from smartpubsub.node.identity import peer_text
from smartpubsub.node.signing import is_signature
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Held
from smartpubsub.protocols.scoutsubs.attestation import held_bytes


class ReceiptError(NodeError):
    """A document that is no receipt."""


@dataclass(frozen=True)
class Receipt:
    """What is known of a published event, and who has signed for it."""

    event_id: EventId
    waited_for: Wait
    held: tuple[Held, ...] = ()
    """The rendezvous of each attribute and its backups, if the protocol and the wait tell."""

    @property
    def id(self) -> str:
        """The event's id, as subscribers see it."""
        return str(self.event_id)

    def verify(self) -> bool:
        """Whether somebody keeps the event and all who are said to have signed that.

        It takes nothing but the receipt: the keys are in the peers' ids.
        """
        return bool(self.held) and all(
            is_signature(held.peer, held_bytes(self.event_id, held.attribute), held.signature)
            for held in self.held
        )

    def document(self) -> dict[str, Any]:
        """The receipt for a file or another program."""
        return {
            "id": self.id,
            "waited_for": self.waited_for.value,
            "publisher": peer_text(self.event_id.publisher),
            "incarnation": self.event_id.incarnation,
            "number": self.event_id.number,
            "held": [
                {
                    "attribute": held.attribute,
                    "peer": peer_text(held.peer),
                    "signature": base64.b64encode(held.signature).decode(),
                }
                for held in self.held
            ],
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Receipt:
        """The receipt that a document is of."""
        try:
            id = EventId(
                base58.b58decode(document["publisher"]),
                int(document["incarnation"]),
                int(document["number"]),
            )
            held = tuple(
                Held(
                    str(entry["attribute"]),
                    base58.b58decode(entry["peer"]),
                    base64.b64decode(entry["signature"], validate=True),
                )
                for entry in document["held"]
            )
            return cls(id, Wait(document["waited_for"]), held)
        except (KeyError, TypeError, ValueError, AttributeError, Base64Error) as error:
            raise ReceiptError(f"the document is no receipt: {error!r}") from None
