"""The recent events that a node keeps for the audits of subscribers (`audit.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from smartpubsub.kademlia.ledger import Ledger
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.matching import Index
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication, Signing
from smartpubsub.protocols.scoutsubs.arrival_order import ArrivalOrder
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox, question_hash
from smartpubsub.protocols.scoutsubs.duplicates import EventKey, digest_of_id
from smartpubsub.protocols.scoutsubs.history import first_page, memory_bytes
from smartpubsub.protocols.scoutsubs.messages import (
    Audit,
    Audited,
    KeepForAudits,
    KeptAt,
    Missed,
    Recorded,
)
from smartpubsub.protocols.scoutsubs.recovery import Recovery
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import base_name
from smartpubsub.protocols.scoutsubs.timeouts import MS
from smartpubsub.seam import Peer

KEPT_US = 5 * MINUTE
"""How long keepers keep an event: longer than it takes to ask each of them once."""
KEPT_BYTES_MAX = 32 << 20
FEW_FILTERS = 3
"""An index of more filters is faster than each filter by itself."""


class _KeptForAudits(NamedTuple):
    """An event and its place: the time of its arrival, or a little later."""

    event: Publication
    digest: int
    place: int


class AuditKeeper:
    """The recent events that this node keeps for the audits of subscribers.

    If there is no room, it evicts the oldest event of the publisher that has most.

    A node that signs for events also signs its answers to audits, and an answer that leaves an
    event out convicts it (`convictions.py`). So an answer states a range of places in which the
    node has dropped none. The place of an event is its time of arrival, so an answer without events
    states a range too: a node that signs for events and forgets them is convicted as well.
    """

    def __init__(
        self,
        outbox: ScoutOutbox,
        settings: ScoutSettings,
        signing: Signing,
        ledger: Ledger,
        recovery: Recovery,
        keep_until_admitted: Callable[[Publication, str], bool],
    ) -> None:
        """Make a keeper; `keep_until_admitted` stores an event in place of its rendezvous.

        It returns whether there was room.
        """
        self._outbox = outbox
        self._settings = settings
        self._signing = signing
        self._recovery = recovery
        self._keep_until_admitted = keep_until_admitted
        self._last_place = 0
        """The place of the last event, or the end of the last answer's range."""
        self._ahead_us = 0
        """By how much places are ahead of the clock."""
        self._first_place = 1
        """The node has dropped no event at this place or a later one."""
        self._kept: dict[str, dict[EventId, _KeptForAudits]] = {}
        """By tree, in the order of arrival."""
        self._account = ledger.open("events for audits", KEPT_BYTES_MAX, KEPT_BYTES_MAX)
        self._order = ArrivalOrder(self._keys)

    def keep(self, event: Publication, tree: str) -> None:
        """Keep an event of a tree; the keepers of an attribute keep those of all its shards."""
        if not self._settings.has_audits or tree != base_name(tree):
            return
        id, account, of_tree = event.id, self._account, self._kept.get(tree)
        if of_tree is None:
            of_tree = self._kept[tree] = {}
        elif id in of_tree:
            return
        self._last_place = max(self._last_place + 1, self._time_us())
        of_tree[id] = _KeptForAudits(event, digest_of_id(id), self._last_place)
        self._order.add((id, tree))
        account.change(id.publisher, memory_bytes(event))
        while account.size > account.size_max:
            user = account.largest()
            assert user is not None
            account.evicted += 1
            self._drop(self._order.oldest_of(user))

    def _time_us(self) -> int:
        """The time by this node's clock; it does not go back when the clock is set back."""
        now = self._outbox.now
        self._ahead_us = max(self._ahead_us, self._last_place - now)
        return now + self._ahead_us

    def _keys(self) -> list[EventKey]:
        """All events in the order of arrival."""
        every = [(kept, tree) for tree, some in self._kept.items() for kept in some.values()]
        return [(kept.event.id, tree) for kept, tree in sorted(every, key=lambda e: e[0].place)]

    def on_keep(self, peer: Peer, part: KeepForAudits) -> None:
        """Keep an event for a publisher that has found this node among the keepers of a tree.

        If the signatures of keepers may replace the acknowledgement of the rendezvous, this node
        also stores the event until a rendezvous has it.
        """
        if not self._signing.is_signed(part.event):
            self._outbox.reject("signature")
            return
        self.keep(part.event, part.attribute)
        if part.wants_answer:
            id, attribute = part.event.id, part.attribute
            kept = self._kept.get(attribute, {}).get(id)
            if kept is not None:
                incarnation, digest = self._recovery.incarnation, kept.event.digest
                place = KeptAt(id, attribute, incarnation, kept.place, digest)
                self._outbox.queue(peer, place)
            is_full = kept is None or not (
                self._settings.keeper_quorum or self._keep_until_admitted(part.event, attribute)
            )
            self._outbox.queue(peer, Recorded(id, attribute, is_full))

    def on_audit(self, peer: Peer, part: Audit) -> None:
        """Answer a subscriber that asks for the events that it has missed."""
        missed = self._missed(part)
        events, has_more = first_page((kept.event for kept in missed), self._settings)
        page = missed[: len(events)]
        named = tuple(map(self._named, page))
        answer = Audited(part.attribute, part.number, named, has_more)
        if self._settings.keeper_quorum:
            since_us, until_us = self._asked_times(part)
            # An event that arrives now must not get a place in the range of this answer.
            self._last_place = max(self._last_place, until_us)
            answer = answer._replace(
                question=question_hash(part.attribute, part.filters, part.had),
                incarnation=self._recovery.incarnation,
                first=max(since_us, self._first_place),
                last=page[-1].place if answer.has_more else max(0, until_us),
            )
        self._outbox.queue(peer, answer)

    def own_answer(self, part: Audit) -> list[Missed]:
        """The events that this node keeps and has missed as a subscriber."""
        return list(map(self._named, self._missed(part)))

    def _named(self, kept: _KeptForAudits) -> Missed:
        return Missed(kept.event, max(0, self._time_us() - kept.place) // MS)

    def _asked_times(self, part: Audit) -> tuple[int, int]:
        """The times of arrival here between which a subscriber asks for events."""
        now = self._time_us()
        return now - part.age_ms * MS, now - part.grace_ms * MS

    def _missed(self, part: Audit) -> list[_KeptForAudits]:
        """The events that a subscriber asks for and does not have, the oldest first."""
        since_us, until_us = self._asked_times(part)
        had, is_wanted = dict.fromkeys(part.had), _any_of(part.filters)
        found = []
        for kept in reversed(self._kept.get(part.attribute, {}).values()):
            if kept.place < since_us:
                break
            if (
                kept.place <= until_us
                and kept.digest not in had
                and is_wanted(kept.event.predicate)
            ):
                found.append(kept)
        return found[::-1]

    def tick(self) -> None:
        """Forget events that no subscriber asks for any more."""
        oldest_us = self._time_us() - KEPT_US
        for tree, kept in list(self._kept.items()):
            old = []
            for id, entry in kept.items():
                if entry.place >= oldest_us:
                    break
                old.append((id, tree))
            for key in old:
                self._drop(key)

    def _drop(self, key: EventKey) -> None:
        id, tree = key
        kept = self._kept[tree].pop(id)
        self._first_place = max(self._first_place, kept.place + 1)
        if not self._kept[tree]:
            del self._kept[tree]
        self._account.change(id.publisher, -memory_bytes(kept.event))
        self._order.drop(key)

    @property
    def bytes_held(self) -> int:
        """The size of all events, with the memory that they take."""
        return self._account.size

    def check(self) -> None:
        """Assert the invariants: the order has the same events, and so has the account."""
        events = [kept.event for tree in self._kept.values() for kept in tree.values()]
        self._order.check()
        assert self._account.size == sum(map(memory_bytes, events))


def _any_of(filters: Sequence[Predicate]) -> Callable[[Predicate], bool]:
    """Whether one of some filters matches an event, in about the same time for any number."""
    if len(filters) <= FEW_FILTERS:
        return lambda event: any(wanted.matches(event) for wanted in filters)
    index = Index("python")
    for number, wanted in enumerate(filters):
        index.add(number, wanted)
    return index.match_any
