"""Audits: subscribers notice events that the tree has not brought, and get them.

A node on the way down a tree may drop an event and confirm it all the same. So an event is also
kept, for some minutes, by all keepers of its tree: the nodes that a lookup finds closest to the
tree's key. The rendezvous and its replicas have it anyway; its publisher sends it to the others. A
subscriber looks the keepers up by itself and asks some of them now and then for the events that
they have had for it, except those that it has. While nothing is missing it asks less and less
often.

A keeper that lies can only withhold events: publishers sign them. So one honest keeper is enough.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from random import Random

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Signing
from smartpubsub.protocols.pubsub import Delivery
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.audit_keeper import KEPT_US
from smartpubsub.protocols.scoutsubs.dissemination import Dissemination
from smartpubsub.protocols.scoutsubs.filters import Filters
from smartpubsub.protocols.scoutsubs.history import SKEW_US_MAX, digest_of_id, place_of
from smartpubsub.protocols.scoutsubs.keepers import TreeKeepers
from smartpubsub.protocols.scoutsubs.messages import Audit, Audited, Missed
from smartpubsub.protocols.scoutsubs.replay import Replay
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import attribute_of
from smartpubsub.protocols.scoutsubs.timeouts import MS, ResponseTimes
from smartpubsub.seam import Peer

SLACK_US = SECOND
"""How far the times may differ at which an event comes to keepers and to subscribers."""
FILTERS_MAX = 100
"""A node with more filters in a tree asks for all events of the tree."""
SKIPPED_MAX = 20
"""Where links seem to be full, so many audits are left out."""
GRACE_US_MAX = 2 * MINUTE
BROUGHT_MAX = 1_000
TREES_MAX = 1_000
"""A node audits so many trees."""


@dataclass(slots=True)
class _AuditedTree:
    """A tree that this node has subscriptions in."""

    interval_us: int
    since_us: dict[int, int] = field(default_factory=dict)
    """By subscription: since when it is in force."""
    got: deque[tuple[EventId, int]] = field(default_factory=deque)
    """The events of late, and when they came."""
    asked: dict[Peer, tuple[int, int]] = field(default_factory=dict)
    """Keepers that have not answered: the number of the question, and when it was sent."""
    answered_us: dict[Peer, int] = field(default_factory=dict)
    """Up to when each keeper has answered."""
    next: int = 0
    """The place of the keeper that is asked next."""
    is_alerted: bool = False
    """Whether something was missing at the last audit."""
    skipped: int = 0
    """How many audits in a row did not take place since links seemed to be full."""
    has_answer: bool = False
    """Whether a keeper has answered since the last audit; if none has, links may be full."""
    grace_us: int = 0
    """How long the tree has to bring an event, if more than usual."""
    brought: BoundedDict[EventId, None] = field(default_factory=lambda: BoundedDict(BROUGHT_MAX))
    """Events that audits have brought and the tree has not."""


class Auditor:
    """Asks the keepers of the trees that this node has subscriptions in."""

    def __init__(
        self,
        outbox: ScoutOutbox,
        settings: ScoutSettings,
        signing: Signing,
        detector: FailureDetector,
        times: ResponseTimes,
        filters: Filters,
        replay: Replay,
        dissemination: Dissemination,
        lookup: TreeKeepers,
        rng: Random,
    ) -> None:
        self._outbox = outbox
        self._settings = settings
        self._signing = signing
        self._detector = detector
        self._times = times
        self._filters = filters
        self._replay = replay
        self._dissemination = dissemination
        self._lookup = lookup
        self._rng = rng
        self._trees: dict[str, _AuditedTree] = {}
        self._last_number = 0
        self.missed_count = 0
        """The events that audits have brought."""

    def __len__(self) -> int:
        return len(self._trees)

    # --- what to audit ---

    def on_in_force(self, number: int, tree: str) -> None:
        """A subscription is in force in a tree, or has ended."""
        table = self._filters.tables.get(tree)
        if table is None or number not in table.own or not self._settings.has_audits:
            return
        audited = self._trees.get(tree)
        if audited is None:
            if len(self._trees) >= TREES_MAX:
                self._outbox.reject("audited trees")
                return
            audited = self._trees[tree] = _AuditedTree(self._settings.audit_us_min)
            self._set_timer(tree, audited)
        audited.since_us.setdefault(number, self._outbox.now)

    def on_event(self, id: EventId, tree: str) -> None:
        """The tree has brought an event."""
        audited = self._trees.get(tree)
        if audited is None:
            return
        audited.got.append((id, self._outbox.now))
        if id in audited.brought:  # It was not lost: links are slow, and audits fill them further.
            del audited.brought[id]
            audited.grace_us = min(2 * self._grace_us(audited), GRACE_US_MAX)
            audited.is_alerted = False
            audited.interval_us = self._settings.audit_us_max

    def _grace_us(self, audited: _AuditedTree) -> int:
        return max(self._settings.audit_grace_us, 2 * self._times.timeout_us, audited.grace_us)

    # --- questions ---

    def _set_timer(self, tree: str, audited: _AuditedTree) -> None:
        """Set the next audit, a little off the interval, so that nodes do not ask all at once."""
        least_us = max(audited.interval_us, 4 * self._times.timeout_us)
        after_us = least_us * self._rng.randint(80, 120) // 100
        self._outbox.set_timer(("audit", tree), after_us)

    def on_timer(self, tree: str) -> None:
        """Ask some keepers of a tree, each after the others have had their turn."""
        audited = self._trees.get(tree)
        if audited is None:
            return
        table = self._filters.tables.get(tree)
        own = () if table is None else table.own
        for number in [number for number in audited.since_us if number not in own]:
            del audited.since_us[number]
        if not audited.since_us:
            del self._trees[tree]
            return
        is_full = self._are_links_full(audited)
        keepers = [] if is_full else self._keepers(tree, audited)
        audited.has_answer = not keepers
        for peer in keepers:
            self._ask(tree, audited, peer)
        if is_full or keepers:
            audited.is_alerted = False
            audited.interval_us = min(2 * audited.interval_us, self._settings.audit_us_max)
        self._set_timer(tree, audited)

    def _are_links_full(self, audited: _AuditedTree) -> bool:
        """Whether an audit would only fill links further; after some time it is tried anyway."""
        is_unanswered = bool(audited.asked) and not audited.has_answer
        is_full = is_unanswered or self._times.are_slow
        audited.skipped = audited.skipped + 1 if is_full else 0
        if audited.skipped > SKIPPED_MAX:
            audited.skipped = 0
        return bool(audited.skipped)

    def _keepers(self, tree: str, audited: _AuditedTree) -> list[Peer]:
        if audited.asked:  # Others may have taken the place of those that do not answer.
            self._lookup.look_up(tree)
        else:
            self._lookup.prepare(tree)
        found = self._lookup.found(tree)
        audited.asked.clear()
        audited.answered_us = {
            peer: us for peer, us in audited.answered_us.items() if peer in found
        }
        up = [peer for peer in found if not self._detector.is_down(peer)]
        first = audited.next % max(1, len(up))
        count = len(up) if audited.is_alerted else self._settings.audit_peer_count
        chosen = [*up[first:], *up[:first]][:count]
        audited.next = first + len(chosen)
        return chosen

    def _ask(self, tree: str, audited: _AuditedTree, peer: Peer) -> None:
        now = self._outbox.now
        since_us = audited.answered_us.get(peer, min(audited.since_us.values()))
        grace_us = self._grace_us(audited)
        wait_us = grace_us + SLACK_US
        age_us = min(now - since_us + wait_us, KEPT_US)
        self._last_number += 1
        audited.asked[peer] = self._last_number, now
        part = Audit(
            tree,
            self._last_number,
            self._wanted(tree),
            age_us // MS,
            grace_us // MS,
            self._had(audited, now - age_us - wait_us),
        )
        self._outbox.queue(peer, part)

    def _wanted(self, tree: str) -> tuple[Predicate, ...]:
        """The filters of this node's own subscriptions."""
        table = self._filters.tables[tree]
        own = islice(table.own.values(), FILTERS_MAX + 1)
        wanted = tuple(dict.fromkeys(predicate for predicate, _ in own))
        everything = Predicate.of({attribute_of(tree): True})
        return wanted if len(wanted) <= FILTERS_MAX else (everything,)

    def _had(self, audited: _AuditedTree, since_us: int) -> tuple[int, ...]:
        got, oldest_us = audited.got, self._outbox.now - 2 * KEPT_US
        while got and got[0][1] < oldest_us:
            got.popleft()
        late = (id for id, at_us in got if at_us >= since_us)
        return tuple(dict.fromkeys(map(digest_of_id, late)))

    # --- answers ---

    def has_asked(self, peer: Peer, part: Audited) -> bool:
        """Whether a keeper was asked a question that it has not answered."""
        audited = self._trees.get(part.attribute)
        asked = None if audited is None else audited.asked.get(peer)
        return asked is not None and asked[0] == part.number

    def on_audited(self, peer: Peer, part: Audited) -> None:
        """A keeper tells what this node has missed: deliver it, and ask again soon."""
        tree, audited = part.attribute, self._trees[part.attribute]
        _, asked_us = audited.asked.pop(peer)
        audited.has_answer = True
        if not part.has_more:
            audited.answered_us[peer] = asked_us
        missed = sorted(part.missed, key=lambda missed: place_of(missed.event))
        brought = [one for one in missed if self._deliver(tree, audited, one, asked_us)]
        if brought:
            audited.is_alerted = True
            audited.interval_us = self._settings.audit_us_min
            self._set_timer(tree, audited)

    def _deliver(self, tree: str, audited: _AuditedTree, missed: Missed, asked_us: int) -> bool:
        """Deliver an event unless it has come meanwhile; return whether it was missing."""
        event, age_ms = missed
        key, now = (event.id, tree), self._outbox.now
        table = self._filters.tables.get(tree)
        if table is None or self._dissemination.has_spread(key):
            return False
        is_old = 0 < event.created_us < now - KEPT_US - SKEW_US_MAX
        if is_old or self._dissemination.is_replay(key) or not self._signing.is_signed(event):
            self._outbox.reject("audited events")
            return False
        came_us = asked_us - age_ms * MS
        numbers = tuple(
            number
            for number in table.interested(event.predicate).own
            if self._is_after(audited, number, event.id, came_us)
        )
        audited.got.append((event.id, now))
        if not numbers or not self._replay.deliver_late(Delivery(event, numbers, 0)):
            return False
        audited.brought[event.id] = None
        self.missed_count += 1
        return True

    def _is_after(self, audited: _AuditedTree, number: int, id: EventId, came_us: int) -> bool:
        """Whether an event came to a keeper after a subscription was in force.

        Keepers get an event a little after its rendezvous. So one that came about that time may be
        older, and must not come after later events of its publisher.
        """
        since_us = audited.since_us.get(number)
        if since_us is None or came_us < since_us:
            return False
        is_close = came_us < since_us + SLACK_US
        later = (got for got, _ in audited.got if got.publisher == id.publisher and got > id)
        return not is_close or not any(later)

    def check(self) -> None:
        """Assert the invariants: each tree has a subscription and a timer interval."""
        settings = self._settings
        assert len(self._trees) <= TREES_MAX
        for audited in self._trees.values():
            assert audited.since_us
            assert settings.audit_us_min <= audited.interval_us <= settings.audit_us_max
