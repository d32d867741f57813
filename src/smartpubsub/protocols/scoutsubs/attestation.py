"""Evidence that nodes keep an event, which the publisher collects and can show to any node.

The connection authenticates the sender of every message, so a node signs only statements that third
nodes have to verify: that a rendezvous, a replica or a keeper keeps an event. The statements that a
node sends at one time share one signature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import sha256
from struct import pack

from smartpubsub.kademlia.protobuf import framed
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Signing, sequence_of
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.protocols.scoutsubs.duplicates import digest_of_id
from smartpubsub.protocols.scoutsubs.fragments import bundles_of
from smartpubsub.protocols.scoutsubs.messages import (
    Admitted,
    Audited,
    KeptAt,
    Part,
    Recorded,
)
from smartpubsub.protocols.scoutsubs.ranges import EventRange, in_ranges, is_range, range_in, singly
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Peer

_HELD = b"smartpubsub-held:"
_ALL_HELD = b"smartpubsub-all-held:"
_KEPT = b"smartpubsub-kept:"
_ANSWERED = b"smartpubsub-answered:"
_ASKED = b"smartpubsub-asked:"
_PROVED_COUNT_MAX = 64
"""How many verified statements about several events a node remembers."""


def held_bytes(id: EventId, attribute: str, more: int = 0) -> bytes:
    """The statement that a node keeps an event for an attribute, and this many after it."""
    if more:
        first = framed(id.publisher) + sequence_of(id)
        return _ALL_HELD + first + pack(">I", more) + attribute.encode()
    return _HELD + framed(id.publisher) + sequence_of(id) + attribute.encode()


def held_claim(id: EventId, attribute: str, evidence: bytes) -> tuple[bytes, bytes] | None:
    """The statement that evidence is for, and the evidence as signed; None if for another event.

    The evidence may be for several events.
    """
    held, made = range_in(evidence, id)
    return (held_bytes(held.first, attribute, held.more), made) if id in held else None


def kept_bytes(id: EventId, attribute: str, incarnation: int, place: int, digest: bytes) -> bytes:
    """The statement of a keeper that it keeps the event with a digest at a place."""
    held = framed(id.publisher) + sequence_of(id) + framed(attribute.encode())
    return _KEPT + held + pack(">QQ", incarnation, place) + framed(digest)


def question_hash(attribute: str, filters: Iterable[Predicate], had: Sequence[int]) -> bytes:
    """A hash of the question of an audit, which its signed answer contains."""
    asked = b"".join([framed(str(wanted).encode()) for wanted in filters])
    content = framed(attribute.encode()) + framed(asked) + pack(f">{len(had)}Q", *had)
    return sha256(_ASKED + content).digest()


def answer_bytes(
    question: bytes, incarnation: int, first: int, last: int, missed: Sequence[int]
) -> bytes:
    """The statement of a keeper which of its events, at some places, a question asks for."""
    return _ANSWERED + question + pack(f">QQQ{len(missed)}Q", incarnation, first, last, *missed)


class Attestation:
    """Signs statements as one node, and verifies those of others."""

    def __init__(self, signing: Signing) -> None:
        self._signing = signing
        self._proved: BoundedDict[tuple[Peer, str, bytes], EventRange] = BoundedDict(
            _PROVED_COUNT_MAX
        )
        """By peer, attribute and evidence: the events of recent valid statements."""

    def sign(self, queues: Iterable[list[Part]]) -> None:
        """Sign all statements in queues of messages."""
        places = [
            (queue, place)
            for queue in queues
            for place, part in enumerate(queue)
            if type(part) in STATEMENTS and _is_statement(part)
        ]
        if not places:
            return
        statements = [partial(_statement, queue[place]) for queue, place in places]
        for (queue, place), evidence in zip(
            places, self._signing.sign_statements(statements), strict=True
        ):
            queue[place] = queue[place]._replace(evidence=evidence)  # type: ignore[call-arg]

    def verified(self, part: Part, sender: Peer) -> Part | None:
        """Return a message without invalid evidence of other nodes.

        Return None if it is a statement without valid evidence of its sender.
        """
        if type(part) not in STATEMENTS or not _is_statement(part):
            return part
        if isinstance(part, Admitted | Recorded):
            return self._verified_held(part, sender)
        assert isinstance(part, KeptAt | Audited)
        is_valid = self._signing.is_evidence(sender, partial(_statement, part), part.evidence)
        return part if is_valid else None

    def _verified_held(self, part: Admitted | Recorded, sender: Peer) -> Part | None:
        if not self._holds(part, sender, part.evidence):
            return None
        if isinstance(part, Admitted) and part.holders:
            valid = [holder for holder in part.holders if self._holds(part, *holder)]
            if len(valid) < len(part.holders):
                return part._replace(holders=tuple(valid))
        return part

    def _holds(self, part: Admitted | Recorded, peer: Peer, evidence: bytes) -> bool:
        id, attribute = part.id, part.attribute
        proved = self._proved.get((peer, attribute, evidence))
        if proved is not None and id in proved:
            return True
        claim = held_claim(id, attribute, evidence)
        if claim is None or not self._signing.is_evidence(peer, lambda: claim[0], claim[1]):
            return False
        self._proved[peer, attribute, evidence] = range_in(evidence, id)[0]
        return True


STATEMENTS = frozenset({Admitted, Recorded, KeptAt, Audited})
"""The messages that `Attestation.verified` may refuse."""


def _is_statement(part: Part) -> bool:
    """Whether a message says that its sender keeps an event; a refusal needs no evidence."""
    kind = type(part)
    if kind is Admitted:
        return not part.refusal  # type: ignore[union-attr]
    if kind is Recorded:
        return not part.is_full  # type: ignore[union-attr]
    return kind is KeptAt or (kind is Audited and bool(part.question))  # type: ignore[union-attr]


def _statement(part: Part) -> bytes:
    if isinstance(part, KeptAt):
        return kept_bytes(*part[:-1])
    if isinstance(part, Audited):
        missed = [digest_of_id(missed.event.id) for missed in part.missed]
        return answer_bytes(part.question, part.incarnation, part.first, part.last, missed)
    return held_bytes(part.id, part.attribute, part.more)  # type: ignore[union-attr]


class ScoutOutbox(Outbox[Part]):
    """The outbox of ScoutSubs: signs statements and bundles messages.

    Messages of a node to itself go through it too, so that their statements are signed together
    with others; `on_own` receives them.
    """

    def __init__(
        self,
        settings: ScoutSettings,
        own: Peer,
        attestation: Attestation,
        on_own: Callable[[Part], None],
    ) -> None:
        super().__init__(
            "scout", lambda queued: bundles_of(queued, settings.piece_bytes_max), settings.batch_us
        )
        self._own = own
        self._attestation = attestation
        self._on_own = on_own

    def _send_batches(self, peers: list[Peer]) -> None:
        for peer in peers:
            self._queues[peer] = in_ranges(self._queues[peer])
        self._attestation.sign([self._queues[peer] for peer in peers])
        super()._send_batches(peers)

    def _send_batch(self, peer: Peer, queued: list[Part]) -> None:
        if peer != self._own:
            super()._send_batch(peer, queued)
            return
        for part in queued:
            if is_range(part):
                for single in singly(part):
                    self._on_own(single)
            else:
                self._on_own(part)
