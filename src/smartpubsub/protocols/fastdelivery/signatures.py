"""Signs and verifies advertisements, join requests and invitations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.messages import (
    Notice,
    Request,
    canonical_text,
)
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.publication import Publication, Signing
from smartpubsub.seam import Peer


def notice_bytes(predicate: Predicate) -> bytes:
    """The bytes that an owner signs of a notice; the signature shows the owner."""
    return b"smartpubsub-group:" + canonical_text(predicate).encode()


def request_bytes(request: Request) -> bytes:
    """The bytes that a subscriber signs of a request, which has no signature yet."""
    wanted = "\n".join(map(canonical_text, request.predicates))
    said = f"{wanted}\n{request.region}\n{request.capacity}\n{request.version}"
    return b"smartpubsub-join:" + said.encode()


def invitation_bytes(group: Predicate, invited: Peer) -> bytes:
    """The bytes that the owner of a private group signs for a peer that may join it."""
    return b"smartpubsub-invitation:" + canonical_text(group).encode() + b"\n" + invited


@dataclass(eq=False)
class GroupSignatures:
    """Signs as this node, and verifies signatures of other nodes."""

    _signing: Signing
    _own: Contact
    _settings: FastSettings

    def is_event_signed(self, event: Publication) -> bool:
        """Whether the publisher has signed an event."""
        return self._signing.is_signed(event)

    def advertisement(self, predicate: Predicate) -> Notice:
        """Sign that this node owns a group."""
        signature = self._signing.sign_statement(partial(notice_bytes, predicate))
        return Notice(self._own, predicate, signature)

    def is_advertisement_signed(self, notice: Notice) -> bool:
        """Whether the owner of a group has signed its advertisement."""
        content = partial(notice_bytes, notice.predicate)
        return self._signing.is_statement_of(notice.contact.peer, content, notice.signature)

    def request(self, predicates: tuple[Predicate, ...], version: int) -> Request:
        """Sign a request with the predicates that this node wants, and its capacity."""
        settings = self._settings
        bare = Request(self._own, predicates, settings.region, settings.capacity, version, b"")
        return bare._replace(signature=self._signing.sign_statement(partial(request_bytes, bare)))

    def is_request_signed(self, request: Request) -> bool:
        """Whether the subscriber that a request names has signed it."""
        content = partial(request_bytes, request)
        return self._signing.is_statement_of(request.contact.peer, content, request.signature)

    def invitation(self, group: Predicate, invited: Peer) -> bytes:
        """Sign that a peer may join a private group of this node."""
        return self._signing.sign_statement(partial(invitation_bytes, group, invited))

    def is_invited(self, group: Predicate, peer: Peer, invitation: bytes) -> bool:
        """Whether this node has invited a peer to a group of its own."""
        content = partial(invitation_bytes, group, peer)
        return self._signing.is_statement_of(self._own.peer, content, invitation)
