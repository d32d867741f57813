"""Admission at the rendezvous: each publisher's events, once, in the publisher's order.

The rendezvous sends an admitted event down the tree at once and takes it into custody
(`custody.py`). A new rendezvous takes over the events of the one before it, and a former one hands
its events over. A rendezvous of a split attribute sends an event on to its shard.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from smartpubsub.protocols.publication import EventId, Publication, Signing
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.runtime.reorder import Reorder
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.custody import Custody
from smartpubsub.protocols.scoutsubs.dissemination import Dissemination
from smartpubsub.protocols.scoutsubs.duplicates import DuplicateWindow, EventKey
from smartpubsub.protocols.scoutsubs.filters import Filters
from smartpubsub.protocols.scoutsubs.flight import FlightState, RootFlight
from smartpubsub.protocols.scoutsubs.forwarding import Forwarding
from smartpubsub.protocols.scoutsubs.membership import Role, TreeMembership
from smartpubsub.protocols.scoutsubs.messages import (
    NO_PEER,
    Admitted,
    Completed,
    Done,
    Raise,
    Record,
    Recorded,
)
from smartpubsub.protocols.scoutsubs.persistence import Persistence
from smartpubsub.protocols.scoutsubs.proximity import Proximity
from smartpubsub.protocols.scoutsubs.replicas import EventReplica, EventReplicas
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shards import Shards
from smartpubsub.protocols.scoutsubs.timeouts import MS, ResponseTimes
from smartpubsub.protocols.seen import Seen
from smartpubsub.seam import Peer

RECENT_COUNT_MAX = 200
RECENT_BYTES_MAX = 64 << 20
"""How many recent events of an attribute a rendezvous keeps, and their size in all attributes."""


def _key_of(part: Raise) -> EventKey:
    return part.event.id, part.attribute


def _key_before(part: Raise) -> EventKey:
    """The publisher's previous event in the same tree."""
    publisher, incarnation, _ = part.event.id
    return EventId(publisher, incarnation, part.previous), part.attribute


def _raised_again(record: Record) -> Raise:
    """The message in which this node sends a kept event to another rendezvous."""
    event, attribute, hops, wants_all, age_ms = record
    return Raise(event, attribute, 0, hops, True, wants_all, age_ms, is_permitted=True)


@dataclass(eq=False)
class Admission:
    """The events that this node has admitted as a rendezvous, and those that wait for others."""

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _signing: Signing
    _detector: FailureDetector
    _proximity: Proximity
    _times: ResponseTimes
    _persistence: Persistence
    _membership: TreeMembership
    _filters: Filters
    _replicas: EventReplicas
    _shards: Shards
    _dissemination: Dissemination
    _forwarding: Forwarding
    _custody: Custody

    def __post_init__(self) -> None:
        settings = self._settings
        self._admitted = DuplicateWindow(settings.seen_us, settings.seen_count_max)
        self._disowned: Seen[EventKey] = Seen(settings.suspect_us, settings.seen_count_max)
        """Events that were handed over before they were acknowledged; they may come back."""
        self._publishers: Seen[tuple[Peer, str]] = Seen(settings.seen_us, settings.seen_count_max)
        """Publishers and attributes of events that were admitted here."""
        self._recent: dict[str, deque[tuple[Raise, int]]] = {}
        """The last events that were admitted here, and when they were published; another
        rendezvous may need them too."""
        self._recent_bytes = 0
        self._early: Reorder[EventKey, Raise] = Reorder(self._go_on_with)
        self._overdue: Seen[EventKey] = Seen(settings.seen_us, settings.seen_count_max)
        """Predecessors that did not arrive in time; no event waits for them again."""

    def __len__(self) -> int:
        return len(self._early)

    # --- admission ---

    def admit(self, part: Raise, came_from: Peer | None) -> Peer | None:
        """Admit an event, or send it on to its shard; return the next hop in that case."""
        forwarded = self._forwarded(part)
        if forwarded is not None:
            return self._forwarding.forward(forwarded, came_from)
        self._admit(part, came_from)
        return None

    def _forwarded(self, part: Raise) -> Raise | None:
        """The message for another shard; None if this node admits the event."""
        if not self._shards.may_forward(part.attribute):
            return None
        key, before = _key_of(part), _key_before(part)
        is_here = key in self._admitted or key in self._early or before in self._early
        forwarded = self._shards.forwarded(part, is_here=is_here)
        if forwarded is None or before not in self._admitted:
            return forwarded
        # No other shard has to wait for a predecessor that was admitted here.
        return forwarded._replace(previous=0)

    def _admit(self, part: Raise, came_from: Peer | None) -> None:
        id, attribute = part.event.id, part.attribute
        key = (id, attribute)
        if key in self._admitted and key not in self._disowned:
            self._admit_again(part)
        elif not self._signing.is_signed(part.event):
            self._outbox.reject("signature")
        elif self._admitted.is_replay(key):
            self._outbox.reject("replay")
            reason = "the event is older than those that the rendezvous knows; publish it again"
            self._answer(id, attribute, reason)
        elif self._began_us(part.age_ms) <= self._outbox.now - 2 * self._settings.renew_us:
            self._outbox.reject("old events")
            self._answer(id, attribute, "the event was under way for too long; publish it again")
        elif self._dissemination.is_full or not self._has_room_for(part.event):
            self._outbox.reject("events")
            self._answer(id, attribute, "the rendezvous has too many events in flight; try later")
        elif self._has_to_wait(part):
            self._wait_for_predecessor(part)
        else:
            self._take(part, came_from)
            if self._early:
                self._early.pass_on(_key_of(part))

    def _admit_again(self, part: Raise) -> None:
        """Answer for an event that was admitted before.

        A publisher that wants more replicas publishes an event anew: it was created before and is
        no retransmission. The nodes that can be replicas by now record it then.
        """
        id, attribute = key = _key_of(part)
        flight = self._dissemination.root_flight(key)
        if flight is not None and not flight.is_acknowledged:
            return
        if part.age_ms and not part.is_retry and self._may_record_again(part):
            self._membership.check_root(attribute)
            if not self._membership.is_root(attribute):
                self._forwarding.forward(part, None)
            elif flight is None:
                self._begin_again(self._flight(part))
            else:
                self._custody.record_again(flight)
            return
        self._answer(id, attribute)
        if part.wants_all and flight is None:
            self._outbox.queue(id.publisher, Completed(id, attribute))

    def _may_record_again(self, part: Raise) -> bool:
        is_young = self._began_us(part.age_ms) > self._outbox.now - 2 * self._settings.renew_us
        has_room = not self._dissemination.is_full and self._has_room_for(part.event)
        is_permitted = self._settings.is_reliable and is_young and has_room
        return is_permitted and self._signing.is_signed(part.event)

    def _begin_again(self, flight: RootFlight) -> None:
        """Take custody of an event that other nodes, or this one, had in custody before."""
        self._dissemination.spread(flight, is_resend=True)
        self._custody.take(flight)

    def _has_room_for(self, event: Publication) -> bool:
        return self._persistence.has_room_for(event, self._proximity.own.peer)

    def _take(self, part: Raise, came_from: Peer | None) -> None:
        event, attribute, now = part.event, part.attribute, self._outbox.now
        self._membership.use(attribute)
        self._admitted.add((event.id, attribute), now)
        self._publishers.add((event.id.publisher, attribute), now)
        flight = self._flight(part)
        self._keep_recent(part, flight.began_us)
        # In unreliable variants a child that forwards an event has sent it down already.
        table = self._filters.tables[attribute]
        is_below = not self._settings.is_reliable and came_from in table.children
        excluded = came_from if is_below and came_from else NO_PEER
        self._dissemination.spread(flight, excluded=excluded)
        copies = len(flight.targets) + self._settings.backups
        self._shards.add_load(attribute, event.id.publisher, copies)
        if self._settings.is_reliable:
            self._custody.take(flight)
        else:
            self._answer(event.id, attribute)

    def _keep_recent(self, part: Raise, began_us: int) -> None:
        recent = self._recent.setdefault(part.attribute, deque())
        recent.append((part, began_us))
        self._recent_bytes += part.event.wire_bytes
        if len(recent) > RECENT_COUNT_MAX:
            self._drop_recent(part.attribute)
        while self._recent_bytes > RECENT_BYTES_MAX:
            self._drop_recent(next(iter(self._recent)))
        self._filters.set_recent(part.attribute, has_recent=True)

    def _drop_recent(self, attribute: str) -> None:
        """Drop the oldest of the recent events of an attribute."""
        recent = self._recent[attribute]
        self._recent_bytes -= recent.popleft()[0].event.wire_bytes
        if not recent:
            del self._recent[attribute]

    def _take_recent(self, attribute: str) -> deque[tuple[Raise, int]]:
        recent = self._recent.pop(attribute, deque())
        self._recent_bytes -= sum(part.event.wire_bytes for part, _ in recent)
        return recent

    def _flight(self, part: Raise | Record) -> RootFlight:
        return RootFlight(
            *(part.event, part.attribute, part.hops, None, self._outbox.now),
            state=FlightState.RECORDING,
            began_us=self._began_us(part.age_ms),
            wants_all=part.wants_all,
        )

    def _answer(self, id: EventId, attribute: str, refusal: str = "") -> None:
        self._outbox.queue(id.publisher, Admitted(id, attribute, refusal))

    def _began_us(self, age_ms: int) -> int:
        """When an event of some age was published."""
        return self._outbox.now - age_ms * MS

    # --- the publisher's order ---

    def _has_to_wait(self, part: Raise) -> bool:
        # An event that names itself or a later one as its predecessor would wait for ever.
        if not 0 < part.previous < part.event.id.number:
            return False
        before = _key_before(part)
        if before in self._admitted or before in self._overdue:
            return False
        # An earlier rendezvous may have admitted it while this node kept a replica.
        return not self._replicas.was_completed(before)

    def _has_room_to_wait(self) -> bool:
        """Whether one more event can wait; the publisher retransmits one that cannot."""
        if len(self._early) < self._settings.record_count_max:
            return True
        self._outbox.reject("waiting events")
        return False

    def _wait_for_predecessor(self, part: Raise) -> None:
        before = _key_before(part)
        if self._early.is_awaited(before) or not self._has_room_to_wait():
            return
        timeout_us = self._times.timeout_us
        wait_us = min(self._settings.hold_us_max, 2 * timeout_us)
        if (part.event.id.publisher, part.attribute) not in self._publishers:
            # A new rendezvous has not seen the predecessor, which was most probably admitted.
            wait_us = min(wait_us, timeout_us // 2)
        self._early.hold(_key_of(part), part, before)
        self._set_timer(before, wait_us)

    def _set_timer(self, before: EventKey, wait_us: int) -> None:
        id, attribute = before
        self._outbox.set_timer(("reorder", attribute, *id), wait_us)

    def on_reorder_timer(
        self, attribute: str, publisher: Peer, incarnation: int, number: int
    ) -> None:
        """Stop waiting for a predecessor, unless it is here and waits itself.

        Its own timer may be longer, if responses took longer when it was set.
        """
        before = EventId(publisher, incarnation, number), attribute
        if self._early.is_awaited(before) and before in self._early:
            self._set_timer(before, self._times.timeout_us)
        else:
            self._early.pass_on(before)

    def _go_on_with(self, part: Raise) -> None:
        """Admit an event that has waited; its successors follow even if it is refused."""
        self._overdue.add(_key_before(part), self._outbox.now)
        self._forwarding.forward(part, None)

    # --- take-over and hand-over ---

    def records_of(self, attribute: str) -> tuple[Record, ...]:
        """The events of an attribute that this node has custody of, or keeps as a replica."""
        now = self._outbox.now
        own = [flight.record(now) for flight in self._dissemination.root_flights(attribute)]
        return (*own, *self._replicas.records_of(attribute))

    def take_over(self, attribute: str, records: tuple[Record, ...]) -> None:
        """Take custody of the events of a former rendezvous."""
        oldest = self._outbox.now - 2 * self._settings.renew_us
        for part in records:
            key = (part.event.id, part.attribute)
            if part.attribute != attribute:
                self._outbox.reject("records")  # Only a node that lies sends these.
                continue
            if self._dissemination.is_full:
                self._outbox.reject("events")
                continue  # It stays where it is kept, and there may be room later.
            was_kept = key in self._replicas.kept
            self._replicas.forget(key)
            if self._began_us(part.age_ms) <= oldest:
                continue  # A subscriber without it has lapsed.
            if not self._signing.is_signed(part.event):
                self._outbox.reject("signature")
            elif self._admitted.add(key, self._outbox.now) or (
                # This node has handed it over, and the other rendezvous has not completed it.
                was_kept and self._dissemination.root_flight(key) is None
            ):
                flight = self._flight(part)
                # Only a publisher or a replica had it, so another rendezvous may lack it.
                self._keep_recent(_raised_again(part), flight.began_us)
                self._begin_again(flight)

    def hand_over(self, attribute: str) -> None:
        """Hand the events of this node to the rendezvous that has taken its place.

        The other node may have been a rendezvous all the time, with other subscribers. So it also
        gets events that are confirmed here; subscribers deliver an event once.
        """
        oldest = self._outbox.now - 2 * self._settings.renew_us
        for part, began_us in self._take_recent(attribute):
            if began_us > oldest:
                age_ms = (self._outbox.now - began_us) // MS
                self._forwarding.forward(
                    part._replace(previous=0, is_retry=True, age_ms=age_ms), None
                )
        self._filters.set_recent(attribute, has_recent=False)
        for flight in self._dissemination.root_flights(attribute):
            if not flight.is_acknowledged:
                self._disowned.add(flight.key, self._outbox.now)
            self._custody.hand_over(flight)

    def send_recent_to(self, attribute: str, peer: Peer, root_ms: int) -> None:
        """Send a child the events that were admitted here while it was a rendezvous itself.

        Older events have reached the nodes below the child through this node.
        """
        oldest = self._began_us(root_ms) - self._settings.timeout_us_max
        for part, began_us in list(self._recent.get(attribute, ())):
            if began_us > oldest:
                self._custody.send_late(attribute, part.event, part.hops, began_us, peer)

    def forget(self, attribute: str) -> None:
        """Forget a tree that the node leaves."""
        self._take_recent(attribute)

    # --- events that are kept for other rendezvous ---

    def restore(self, owner: Peer, record: Record) -> None:
        """Keep a stored event again; take custody of it if this node had it."""
        self._replicas.keep(record, owner)
        self._replicas.ask_soon((record.event.id, record.attribute))
        if owner == self._proximity.own.peer:
            tree = self._membership.join(record.attribute)
            if tree is not None and tree.role is Role.ROOT:
                self.take_over(record.attribute, (record,))

    def has_completed(self, key: EventKey) -> bool:
        """Whether this node knows that an event is completed, and no replica has to keep it."""
        if self._dissemination.root_flight(key) is not None or key in self._replicas.kept:
            return False
        was_here = key in self._admitted and key not in self._disowned
        return was_here or self._persistence.is_done(key)

    def on_recorded(self, peer: Peer, part: Recorded) -> None:
        """Answer a replica that keeps an event which is completed."""
        if self.has_completed((part.id, part.attribute)):
            self._outbox.queue_late(peer, Done(part.id, part.attribute))

    def check_replicas(self) -> None:
        """Drop replicas that are too old, and find a rendezvous for those without one.

        Ask for the others whether they are completed.
        """
        oldest = self._outbox.now - 2 * self._settings.renew_us
        for key, kept in list(self._replicas.kept.items()):
            if kept.began_us < oldest:
                self._replicas.forget(key)
            elif self._detector.is_down(kept.owner or key[0].publisher) or self._is_left_over(kept):
                self._hand_on(kept)
        self._replicas.ask_owners()

    def hand_on_orphans(self, publisher: Peer, incarnation: int | None = None) -> None:
        """Find a rendezvous for the events that keepers have acknowledged to a publisher.

        The publisher is down, or has restarted and forgotten them.
        """
        for kept in self._replicas.orphans(publisher, incarnation):
            if self._membership.join(kept.record.attribute) is not None:
                self._hand_on(kept)

    def _is_left_over(self, kept: EventReplica) -> bool:
        """Whether this node had custody of an event before a restart and knows its role now."""
        is_own = kept.owner == self._proximity.own.peer
        return is_own and self._membership.role(kept.record.attribute) in (Role.CHILD, Role.ROOT)

    def _hand_on(self, kept: EventReplica) -> None:
        """Find another rendezvous for an event whose rendezvous is down."""
        record = kept.aged(self._outbox.now)
        if self._membership.is_root(record.attribute):
            self.take_over(record.attribute, (record,))
            return
        hop = self._forwarding.forward(_raised_again(record), None)
        if hop is not None:
            self._replicas.keep(record, hop)

    # --- invariants ---

    def check(self) -> None:
        """Assert the invariants of the events that wait and of those that are remembered."""
        self._early.check()
        self._admitted.check()
        assert len(self._early) <= self._settings.record_count_max
        for key in self._early:
            part = self._early.get(key)
            assert part is not None
            assert part.previous < part.event.id.number
        assert all(0 < len(recent) <= RECENT_COUNT_MAX for recent in self._recent.values())
        events = [part.event for recent in self._recent.values() for part, _ in recent]
        assert self._recent_bytes == sum(event.wire_bytes for event in events) <= RECENT_BYTES_MAX
