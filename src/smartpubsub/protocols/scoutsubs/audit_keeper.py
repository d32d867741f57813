"""The events of late that a node keeps for the audits of subscribers (`audit.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from smartpubsub.kademlia.ledger import Ledger
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication, Signing
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.duplicates import EventKey
from smartpubsub.protocols.scoutsubs.history import MEMORY_BYTES, digest_of_id
from smartpubsub.protocols.scoutsubs.messages import (
    Audit,
    Audited,
    KeepForAudits,
    Missed,
    Recorded,
)
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.timeouts import MS
from smartpubsub.seam import Peer

KEPT_US = 5 * MINUTE
"""How long keepers keep an event: longer than it takes to ask each of them once."""
KEPT_BYTES_MAX = 32 << 20


class _KeptForAudits(NamedTuple):
    """An event, and when it came."""

    event: Publication
    kept_us: int
    digest: int


class AuditKeeper:
    """The events of late that this node keeps for the audits of subscribers.

    Where there is no room, the oldest event of the publisher that has most makes room.
    """

    def __init__(
        self, outbox: ScoutOutbox, settings: ScoutSettings, signing: Signing, ledger: Ledger
    ) -> None:
        self._outbox = outbox
        self._settings = settings
        self._signing = signing
        self._kept: dict[str, dict[EventId, _KeptForAudits]] = {}
        """By tree, in the order of arrival."""
        self._account = ledger.open("events for audits", KEPT_BYTES_MAX, KEPT_BYTES_MAX)
        self._of_publisher: dict[Peer, dict[EventKey, None]] = {}
        """In the order of arrival."""

    def keep(self, event: Publication, tree: str) -> None:
        """Keep an event that this node has for a tree, in whatever role."""
        if not self._settings.has_audits or event.id in self._kept.get(tree, ()):
            return
        publisher = event.id.publisher
        kept = _KeptForAudits(event, self._outbox.now, digest_of_id(event.id))
        self._kept.setdefault(tree, {})[event.id] = kept
        self._of_publisher.setdefault(publisher, {})[event.id, tree] = None
        self._account.change(publisher, _kept_bytes(event))
        while self._account.excess:
            user = self._account.largest()
            assert user is not None
            self._account.evicted += 1
            self._drop(next(iter(self._of_publisher[user])))

    def on_keep(self, peer: Peer, part: KeepForAudits) -> None:
        """A publisher has found this node among the keepers of a tree."""
        if not self._signing.is_signed(part.event):
            self._outbox.reject("signature")
            return
        self.keep(part.event, part.attribute)
        if part.wants_answer:
            is_kept = part.event.id in self._kept.get(part.attribute, ())
            self._outbox.queue(peer, Recorded(part.event.id, part.attribute, not is_kept))

    def on_audit(self, peer: Peer, part: Audit) -> None:
        """A subscriber asks what it has missed."""
        missed = tuple(islice(self._missed(part), self._settings.page_count_max + 1))
        page = self._page(missed)
        answer = Audited(part.attribute, part.number, page, len(page) < len(missed))
        self._outbox.queue(peer, answer)

    def _missed(self, part: Audit) -> Iterator[Missed]:
        """The events that came here in a time and that the subscriber lacks, the oldest first."""
        now, had = self._outbox.now, dict.fromkeys(part.had)
        since_us, until_us = now - part.age_ms * MS, now - part.grace_ms * MS
        entries = []
        for kept in reversed(self._kept.get(part.attribute, {}).values()):
            if kept.kept_us < since_us:
                break
            entries.append(kept)
        for event, kept_us, digest in reversed(entries):
            if kept_us <= until_us and digest not in had and _is_wanted(event, part.filters):
                yield Missed(event, (now - kept_us) // MS)

    def _page(self, missed: tuple[Missed, ...]) -> tuple[Missed, ...]:
        size = 0
        for place, (event, _) in enumerate(missed):
            size += event.wire_bytes
            is_full = place >= self._settings.page_count_max or size > self._settings.page_bytes_max
            if place and is_full:
                return missed[:place]
        return missed

    def tick(self) -> None:
        """Forget events that no subscriber asks for any more."""
        oldest_us = self._outbox.now - KEPT_US
        for tree, kept in list(self._kept.items()):
            old = []
            for id, entry in kept.items():
                if entry.kept_us >= oldest_us:
                    break
                old.append((id, tree))
            for key in old:
                self._drop(key)

    def _drop(self, key: EventKey) -> None:
        id, tree = key
        kept = self._kept[tree].pop(id)
        if not self._kept[tree]:
            del self._kept[tree]
        self._account.change(id.publisher, -_kept_bytes(kept.event))
        of_publisher = self._of_publisher[id.publisher]
        del of_publisher[key]
        if not of_publisher:
            del self._of_publisher[id.publisher]

    @property
    def bytes_held(self) -> int:
        """The size of all events, with the memory that they take."""
        return self._account.size

    def check(self) -> None:
        """Assert the invariants: the indexes have the same events."""
        events = [kept.event for tree in self._kept.values() for kept in tree.values()]
        assert sum(map(len, self._of_publisher.values())) == len(events)
        assert self._account.size == sum(map(_kept_bytes, events))


def _kept_bytes(event: Publication) -> int:
    return event.wire_bytes + MEMORY_BYTES


def _is_wanted(event: Publication, filters: Iterable[Predicate]) -> bool:
    return any(wanted.matches(event.predicate) for wanted in filters)
