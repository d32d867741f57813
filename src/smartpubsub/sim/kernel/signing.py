"""Signatures for simulated nodes: as long as real ones, and nearly free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.evidence import path_bytes
from smartpubsub.protocols.publication import SIGNATURE_BYTES, EventId, Publication, UnsignedEvent
from smartpubsub.seam import Peer


class StandInSigning:
    """Signs with bytes of its peer id, so that a node cannot forge events of other peers.

    It would not detect an event that was changed on its way; the simulator changes none.
    """

    def __init__(self, peer: Peer) -> None:
        self._signature = _signature_of(peer)

    def sign(
        self,
        id: EventId,  # noqa: ARG002
        predicate: Predicate,  # noqa: ARG002
        payload: bytes,  # noqa: ARG002
        created_us: int = 0,  # noqa: ARG002
    ) -> bytes:
        """This peer's signature, whatever the event is."""
        return self._signature

    def sign_all(self, unsigned: Sequence[UnsignedEvent]) -> list[bytes]:
        """This peer's signature, with empty paths of the right lengths."""
        return [self._signature + bytes(length) for length in _path_bytes(len(unsigned))]

    def is_signed(self, publication: Publication) -> bool:
        """Whether an event's signature is its publisher's."""
        signature = publication.signature
        return signature[:SIGNATURE_BYTES] == _signature_of(publication.id.publisher)

    def sign_statement(self, content: Callable[[], bytes]) -> bytes:  # noqa: ARG002
        """This peer's signature, whatever it says."""
        return self._signature

    def is_statement_of(
        self,
        peer: Peer,
        content: Callable[[], bytes],  # noqa: ARG002
        signature: bytes,
    ) -> bool:
        """Whether a signature is a peer's."""
        return signature == _signature_of(peer)

    def sign_statements(self, statements: Sequence[Callable[[], bytes]]) -> list[bytes]:
        """This peer's signature, with empty paths of the right lengths."""
        return [self._signature + bytes(length) for length in _path_bytes(len(statements))]

    def is_evidence(
        self,
        peer: Peer,
        statement: Callable[[], bytes],  # noqa: ARG002
        evidence: bytes,
    ) -> bool:
        """Whether evidence is a peer's."""
        return evidence[:SIGNATURE_BYTES] == _signature_of(peer)


_path_bytes = lru_cache(maxsize=1 << 10)(path_bytes)


@lru_cache(maxsize=1 << 14)
def _signature_of(peer: Peer) -> bytes:
    half = SIGNATURE_BYTES // 2
    return peer[-half:].rjust(half, b"\0") * 2
