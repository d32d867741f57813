"""Convictions: evidence that a keeper withholds events that it has signed for.

A keeper assigns each event that it keeps a place, the time of its arrival, and signs it for the
event's publisher (`KeptAt`). It also signs its answers to audits: "of the events with places from
the first to the last, the question asks for these". An answer that leaves an event out, together
with the signature for that event with a place in between, convicts it. Any node can verify both.

A subscriber that has missed an event and gets it from one keeper takes the answers of others that
have left it out, and sends them to the event's publisher, which has their signatures. The publisher
tells the subscriber and the other keepers. A node that has verified a conviction bans the convicted
node.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from smartpubsub.protocols.publication import EventId, Publication, Signing
from smartpubsub.protocols.pubsub import Convicted
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.scoutsubs.attestation import (
    ScoutOutbox,
    answer_bytes,
    kept_bytes,
    question_hash,
)
from smartpubsub.protocols.scoutsubs.audit_keeper import KEPT_US
from smartpubsub.protocols.scoutsubs.duplicates import digest_of_id
from smartpubsub.protocols.scoutsubs.keepers import TreeKeepers
from smartpubsub.protocols.scoutsubs.messages import Accuse, Convict, KeptAt, SignedAnswer
from smartpubsub.protocols.scoutsubs.persistence import Persistence
from smartpubsub.seam import Peer

OWN_COUNT_MAX = 1_000
SIGNED_COUNT_MAX = 20_000
REMEMBERED_US = 2 * KEPT_US
"""Keepers answer for as long as they keep an event, and accusations follow soon."""
CONVICTED_COUNT_MAX = 1_000


@dataclass(eq=False)
class Convictions:
    """The nodes that this one has convicted, and the evidence that it needs to convict keepers."""

    _outbox: ScoutOutbox
    _own: Peer
    _signing: Signing
    _detector: FailureDetector
    _persistence: Persistence
    _keepers: TreeKeepers

    def __post_init__(self) -> None:
        self._events: BoundedDict[EventId, Publication] = BoundedDict(OWN_COUNT_MAX)
        """Recent own events."""
        self._signed: BoundedDict[tuple[Peer, EventId, str], KeptAt] = BoundedDict(SIGNED_COUNT_MAX)
        """The statements of keepers about these events."""
        self.convicted: BoundedDict[Peer, Convict] = BoundedDict(CONVICTED_COUNT_MAX)

    # --- evidence ---

    def remember(self, event: Publication) -> None:
        """Remember an own event that keepers sign for."""
        self._events[event.id] = event

    def on_kept_at(self, peer: Peer, part: KeptAt) -> None:
        """Keep the signature of a keeper for an own event."""
        event = self._events.get(part.id)
        if event is not None and event.digest == part.digest:
            self._signed[peer, part.id, part.attribute] = part

    def tick(self) -> None:
        """Forget events that no subscriber audits any more, and what was signed for them."""
        oldest_us = self._outbox.now - REMEMBERED_US
        while self._events and next(iter(self._events.values())).created_us < oldest_us:
            self._events.popitem(last=False)
        while self._signed and next(iter(self._signed))[1] not in self._events:
            self._signed.popitem(last=False)

    def accuse(self, id: EventId, answer: SignedAnswer) -> None:
        """Tell a publisher that a keeper has left its event out of an answer."""
        known = self.convicted.get(answer.keeper)
        if known is None:
            self._outbox.queue(id.publisher, Accuse(id, answer))

    def on_accuse(self, peer: Peer, part: Accuse) -> None:
        """Convict a keeper if it has signed for the event."""
        answer, event = part.answer, self._events.get(part.id)
        signed = self._signed.get((answer.keeper, part.id, answer.attribute))
        if event is None or signed is None or signed.incarnation != answer.incarnation:
            return
        conviction = self.convicted.get(answer.keeper)
        if conviction is None:
            conviction = Convict(event, signed.place, signed.evidence, answer)
            if not self._proves(conviction):
                self._outbox.reject("accusations")
                return
            self._convict(conviction)
            for keeper in self._keepers.found(answer.attribute):
                if keeper != peer:
                    self._outbox.queue(keeper, conviction)
        if peer != self._own:
            self._outbox.queue(peer, conviction)

    def on_convict(self, _: Peer, part: Convict) -> None:
        """Verify the conviction that another node sends."""
        keeper = part.answer.keeper
        if keeper in self.convicted or keeper == self._own:
            return
        if self._proves(part):
            self._convict(part)
        else:
            self._outbox.reject("convictions")

    def _convict(self, part: Convict) -> None:
        if len(self.convicted) < CONVICTED_COUNT_MAX:
            self._persistence.keep_conviction(part)
        self._take(part)

    def _take(self, part: Convict) -> None:
        keeper = part.answer.keeper
        self.convicted[keeper] = part
        self._detector.ban(keeper)
        self._outbox.deliver(Convicted(keeper))

    def restore(self) -> None:
        """Ban the nodes again that were convicted before a restart, and tell the host again.

        An earlier version convicted nodes by statements that do not prove a lie.
        """
        for part in self._persistence.take_convictions():
            if self._proves(part):
                self._take(part)
            else:
                self._persistence.drop_conviction(part)

    def _proves(self, part: Convict) -> bool:
        """Whether a keeper has signed both for an event and for an answer that leaves it out."""
        event, place, evidence, answer = part
        digest, tree, incarnation = digest_of_id(event.id), answer.attribute, answer.incarnation
        is_asked_for = any(wanted.matches(event.predicate) for wanted in answer.filters)
        is_left_out = digest not in answer.had and digest not in answer.missed
        if not (is_asked_for and is_left_out and answer.first <= place <= answer.last):
            return False
        question = question_hash(tree, answer.filters, answer.had)
        said = partial(
            answer_bytes, question, incarnation, answer.first, answer.last, answer.missed
        )
        kept = partial(kept_bytes, event.id, tree, incarnation, place, event.digest)
        is_evidence = self._signing.is_evidence
        return (
            self._signing.is_signed(event)
            and is_evidence(answer.keeper, kept, evidence)
            and is_evidence(answer.keeper, said, answer.evidence)
        )

    def check(self) -> None:
        """Assert the invariants: convicted nodes are banned, and this one is none of them."""
        assert self._own not in self.convicted
        assert all(map(self._detector.is_banned, self.convicted))
