"""Signatures of events: made with a node's key, verified with the key in the publisher's id."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256

from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey

from smartpubsub.node.identity import Identity, public_key_in
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.evidence import (
    STATEMENTS_MAX,
    Claim,
    ProvenTrees,
    claim_of,
    evidence_of,
)
from smartpubsub.protocols.publication import (
    SIGNATURE_BYTES,
    SIGNED_FIRST,
    EventId,
    Publication,
    UnsignedEvent,
    signature_field,
)
from smartpubsub.seam import Peer

VERIFIED_COUNT_MAX = 1_000
"""The cache is small, because copies of an event follow within seconds; a large one would fill, and
let a node's memory grow, for hours."""


class Ed25519Witness:
    """Verifies signatures."""

    def is_statement_of(self, peer: Peer, content: Callable[[], bytes], signature: bytes) -> bool:
        """Verify a peer's signature of some content."""
        return is_signature(peer, content(), signature)


class Ed25519Signing(Ed25519Witness):
    """Signs as a node, and caches verified events, because copies of them follow."""

    def __init__(self, identity: Identity, verified_count_max: int = VERIFIED_COUNT_MAX) -> None:
        self._peer = identity.peer
        self._key = SigningKey(identity.seed)
        self._verified: OrderedDict[bytes, None] = OrderedDict()
        self._verified_count_max = verified_count_max
        self._proven = ProvenTrees()
        self._proven_events = ProvenTrees()
        self._own_evidence: OrderedDict[bytes, bytes] = OrderedDict()
        """This node's recent evidence by its statement: it comes back in receipts."""

    def sign(self, id: EventId, predicate: Predicate, payload: bytes, created_us: int = 0) -> bytes:
        """Sign an event of this node."""
        [signature] = self.sign_all([UnsignedEvent(id, predicate, payload, created_us)])
        return signature

    def sign_all(self, unsigned: Sequence[UnsignedEvent]) -> list[bytes]:
        """Sign events of this node together."""
        every = [event.encoded for event in unsigned]
        signatures: list[bytes] = []
        for first in range(0, len(every), STATEMENTS_MAX):
            some = [SIGNED_FIRST + encoded for encoded in every[first : first + STATEMENTS_MAX]]
            is_alone = len(some) == 1  # An event alone is signed as in libp2p's pubsub.
            signatures += (
                [self._signature(some[0])] if is_alone else evidence_of(some, self._signature)
            )
        for encoded, signature in zip(every, signatures, strict=True):
            self._remember(sha256(encoded + signature_field(signature)).digest())
        return signatures

    def is_signed(self, publication: Publication) -> bool:
        """Verify an event's signature, once for all copies of the event."""
        if publication.verified_by is self:
            return True
        # The cache key has all signed content, or a copy with other content would pass by its id.
        digest = publication.digest
        if digest in self._verified:
            self._verified.move_to_end(digest)
        elif self._is_signed(publication):
            self._remember(digest)
        else:
            return False
        publication.verified_by = self
        return True

    def _is_signed(self, event: Publication) -> bool:
        publisher, signature = event.id.publisher, event.signature
        if len(signature) == SIGNATURE_BYTES:
            return is_signature(publisher, event.signed_bytes, signature)

        def is_signed(claim: Claim) -> bool:
            return is_signature(publisher, *claim)

        return self._proven_events.is_evidence(publisher, event.signed_bytes, signature, is_signed)

    def _signature(self, content: bytes) -> bytes:
        return self._key.sign(content).signature

    def _remember(self, digest: bytes) -> None:
        self._verified[digest] = None
        if len(self._verified) > self._verified_count_max:
            self._verified.popitem(last=False)

    def sign_statement(self, content: Callable[[], bytes]) -> bytes:
        """Sign content that is no event."""
        signed = content()
        signature = self._signature(signed)
        self._remember(sha256(signature + signed).digest())
        return signature

    def is_statement_of(self, peer: Peer, content: Callable[[], bytes], signature: bytes) -> bool:
        """Verify a signature of some content; this node's own are cached."""
        signed = content()
        if peer == self._peer and sha256(signature + signed).digest() in self._verified:
            return True
        return is_signature(peer, signed, signature)

    def sign_statements(self, statements: Sequence[Callable[[], bytes]]) -> list[bytes]:
        """Sign statements together."""
        made = [each() for each in statements]
        found = evidence_of(made, self._signature)
        self._own_evidence.update(zip(found, made, strict=True))
        while len(self._own_evidence) > self._verified_count_max // 2:
            self._own_evidence.popitem(last=False)
        return found

    def is_evidence(self, peer: Peer, statement: Callable[[], bytes], evidence: bytes) -> bool:
        """Verify evidence; the signature is verified once for all statements under it."""
        if peer == self._peer and self._own_evidence.get(evidence) == statement():
            return True

        def is_signed(claim: Claim) -> bool:
            return is_signature(peer, *claim)

        return self._proven.is_evidence(peer, statement(), evidence, is_signed)


def is_evidence(peer: Peer, statement: bytes, evidence: bytes) -> bool:
    """Verify a peer's evidence for a statement."""
    claim = claim_of(statement, evidence)
    return claim is not None and is_signature(peer, *claim)


def is_signed_event(event: Publication) -> bool:
    """Verify an event's signature, alone or shared with other events."""
    publisher, signature = event.id.publisher, event.signature
    if len(signature) == SIGNATURE_BYTES:
        return is_signature(publisher, event.signed_bytes, signature)
    return is_evidence(publisher, event.signed_bytes, signature)


def is_signature(peer: Peer, content: bytes, signature: bytes) -> bool:
    """Verify a signature with the key in the peer's id."""
    key = public_key_in(peer)
    if key is None or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        crypto_sign_open(signature + content, key)
    except BadSignatureError:
        return False
    return True
