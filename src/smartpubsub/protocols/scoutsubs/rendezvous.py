"""The rendezvous of an attribute: admits events, has them recorded, and acknowledges them.

On their way up, nodes forward an event to their parents. The rendezvous admits each publisher's
events in the publisher's order, sends an event down the tree at once, has its replicas record it,
and only then acknowledges it. It has custody of the event until all subscribers have confirmed it.
A new rendezvous takes over the events of the one before it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from smartpubsub.kademlia.keys import key_of
from smartpubsub.protocols.publication import EventId, Publication, Signing
from smartpubsub.protocols.runtime.deadlines import Deadlines
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.runtime.reorder import Reorder
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.audit_keeper import AuditKeeper
from smartpubsub.protocols.scoutsubs.dissemination import Dissemination, Flight
from smartpubsub.protocols.scoutsubs.duplicates import DuplicateWindow, EventKey
from smartpubsub.protocols.scoutsubs.filters import Filters
from smartpubsub.protocols.scoutsubs.history import History
from smartpubsub.protocols.scoutsubs.membership import Role, TreeMembership
from smartpubsub.protocols.scoutsubs.messages import (
    NOBODY,
    Admitted,
    Completed,
    Done,
    Holder,
    Raise,
    Record,
    Recorded,
)
from smartpubsub.protocols.scoutsubs.persistence import Persistence
from smartpubsub.protocols.scoutsubs.proximity import Proximity
from smartpubsub.protocols.scoutsubs.replicas import EventReplica, EventReplicas
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shards import Shards
from smartpubsub.protocols.scoutsubs.timeouts import MS, AdaptiveTimeout, ResponseTimes
from smartpubsub.protocols.seen import Seen
from smartpubsub.seam import Peer

_new = tuple.__new__
"""Without the function that a `NamedTuple` is made by, which takes as long as the rest."""
RECENT_COUNT_MAX = 200
PROBED_TIMES = 4
"""When a rendezvous or replica is down, the node probes this many times f + 1 nodes around the
key."""


@dataclass(slots=True)
class _Custody:
    """An event that this node retransmits until all subscribers have it."""

    flight: Flight
    began_us: int
    """When it was published, by this node's clock; a take-over does not change it."""
    wants_all: bool = False
    """Whether the publisher wants to know when all subscribers have it."""
    recording: dict[Peer, None] = field(default_factory=dict)
    """Replicas that have not said that they keep it."""
    recorded: dict[Peer, None] = field(default_factory=dict)
    """Replicas that keep it."""
    holders: dict[Peer, bytes] = field(default_factory=dict)
    """Their evidence for that."""
    is_acknowledged: bool = False
    tries: int = 0

    def record(self, now: int) -> Record:
        """The event as replicas keep it."""
        flight, age_ms = self.flight, (now - self.began_us) // MS
        return Record(flight.event, flight.attribute, flight.hops, self.wants_all, age_ms)


class _EventPlace(NamedTuple):
    """The place of an event in its publisher's order, in one tree."""

    attribute: str
    publisher: Peer
    incarnation: int
    number: int


def _place_of(part: Raise) -> _EventPlace:
    return _EventPlace(part.attribute, *part.event.id)


def _predecessor(part: Raise) -> _EventPlace:
    publisher, incarnation, _ = part.event.id
    return _EventPlace(part.attribute, publisher, incarnation, part.previous)


def _key_before(part: Raise) -> EventKey:
    """The publisher's previous event in the same tree."""
    publisher, incarnation, _ = part.event.id
    return _new(EventId, (publisher, incarnation, part.previous)), part.attribute


@dataclass(eq=False)
class Rendezvous:
    """Events on their way up, and those in the custody of this node."""

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _signing: Signing
    _detector: FailureDetector
    _proximity: Proximity
    _times: ResponseTimes
    _persistence: Persistence
    _membership: TreeMembership
    _filters: Filters
    _history: History
    _audits: AuditKeeper
    _replicas: EventReplicas
    _shards: Shards
    _dissemination: Dissemination

    def __post_init__(self) -> None:
        settings = self._settings
        self._admitted = DuplicateWindow(settings.seen_us, settings.seen_count_max)
        self._disowned: Seen[EventKey] = Seen(settings.suspect_us, settings.seen_count_max)
        """Events that were handed over before they were acknowledged; they may come back."""
        self._publishers: Seen[tuple[Peer, str]] = Seen(settings.seen_us, settings.seen_count_max)
        """Publishers and attributes of events that were admitted here."""
        self._custody: dict[EventKey, _Custody] = {}
        self._confirmation = AdaptiveTimeout(settings.check_us_min // 4)
        self._deadlines: Deadlines[EventKey] = Deadlines(self._outbox, "confirm")
        self._recent: dict[str, deque[tuple[Raise, int]]] = {}
        """The last events that were admitted here, and when they were published; another
        rendezvous may have to have them too."""
        self._held: dict[str, list[tuple[Raise, Peer | None]]] = {}
        """Events that wait until the rendezvous is known."""
        self._doubtful: dict[Peer, list[tuple[Raise, Peer | None]]] = {}
        """Events that wait until it is known whether the next hop is up."""
        self._early: Reorder[_EventPlace, Raise] = Reorder(self._go_on_with)
        self._overdue: Seen[EventKey] = Seen(settings.seen_us, settings.seen_count_max)
        """Predecessors that were awaited in vain, and are not awaited again."""

    # --- on the way up ---

    def pass_up(self, part: Raise, came_from: Peer | None) -> Peer | None:
        """Forward an event towards its rendezvous, or admit it; return the next hop."""
        attribute = part.attribute
        tree, hop = self._membership.trees.get(attribute), None
        if tree is None:
            # A node that only forwards events need not be in the tree.
            hop = self._proximity.closer(attribute)
            if hop is None:
                tree = self._membership.join(attribute)
        elif tree.role is Role.CHILD:
            hop = tree.parent
        if tree is not None and tree.role is Role.ROOT:
            forwarded = self._forwarded(part)
            if forwarded is not None:
                return self.pass_up(forwarded, came_from)
            self._admit(part, came_from)
        elif hop is None:
            if self._has_room_to_wait():
                self._held.setdefault(attribute, []).append((part, came_from))
        elif part.is_retry and not self._detector.was_heard_within(
            hop.peer, self._times.timeout_us
        ):
            self._verify_hop(hop.peer, part, came_from)
            return hop.peer
        else:
            if not self._settings.is_reliable and tree is not None:
                excluded = came_from or NOBODY
                self._dissemination.spread(
                    attribute, part.event, part.hops, None, excluded=excluded
                )
            self._outbox.queue(hop.peer, part._replace(hops=part.hops + 1))
            return hop.peer
        return None

    def _forwarded(self, part: Raise) -> Raise | None:
        """The event as it goes on to another shard; None if it is to be admitted here."""
        if not self._shards.may_forward(part.attribute):
            return None
        id, attribute = part.event.id, part.attribute
        is_early = _place_of(part) in self._early or _predecessor(part) in self._early
        is_here = (id, attribute) in self._admitted or is_early
        forwarded = self._shards.forwarded(part, is_here=is_here)
        if forwarded is None:
            return None
        # No other shard has to wait for a predecessor that was admitted here.
        was_here = _key_before(part) in self._admitted
        return forwarded._replace(previous=0) if was_here else forwarded

    def _verify_hop(self, hop: Peer, part: Raise, came_from: Peer | None) -> None:
        """The next hop may be down, and its successors have to find that out themselves.

        So all of them get the event now. Nodes often fail together, and a node that may have to
        take a place probes all those that precede it at the same time.
        """
        if self._has_room_to_wait():
            self._doubtful.setdefault(hop, []).append((part, came_from))
        self._detector.probe(hop)
        name = part.attribute.encode()
        key = key_of(name)
        own_distance = self._proximity.own.key ^ key
        around = self._proximity.closest(name, self._settings.backups + 1)
        is_far = bool(around) and around[-1].key ^ key < own_distance
        for contact in around:
            if not is_far and contact.key ^ key < own_distance:
                self._detector.probe(contact.peer)
            elif is_far and contact.peer not in (hop, came_from):
                self._outbox.queue(contact.peer, part._replace(hops=part.hops + 1))

    @property
    def waiting_count(self) -> int:
        """The number of events that wait on their way up."""
        waiting = [*self._held.values(), *self._doubtful.values()]
        return len(self._early) + sum(map(len, waiting))

    def _has_room_to_wait(self) -> bool:
        """Whether one more event can wait; the publisher retransmits one that cannot."""
        if self.waiting_count < self._settings.record_count_max:
            return True
        self._outbox.reject("waiting events")
        return False

    def on_heard(self, peer: Peer) -> None:
        """A peer is known to be up or down: go on with the events that waited for that."""
        for part, came_from in self._doubtful.pop(peer, ()):
            self.pass_up(part, came_from)

    def release(self, attribute: str) -> None:
        """The role in a tree is known: go on with the events that waited for that."""
        if self._membership.role(attribute) in (Role.ROOT, Role.CHILD):
            for part, came_from in self._held.pop(attribute, ()):
                self.pass_up(part, came_from)

    def needs_tree(self, attribute: str) -> bool:
        """Whether events wait for a tree, or are in flight from it."""
        return attribute in self._held or bool(self._dissemination.root_flights(attribute))

    # --- admission ---

    def _admit(self, part: Raise, came_from: Peer | None) -> None:
        id, attribute = part.event.id, part.attribute
        key = (id, attribute)
        if key in self._admitted and key not in self._disowned:
            custody = self._custody.get(key)
            if custody is None or custody.is_acknowledged:
                self._answer(id, attribute)
            if part.wants_all and custody is None:
                self._tell_publisher(Completed(id, attribute))
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
                self._early.pass_on(_place_of(part))

    def _has_room_for(self, event: Publication) -> bool:
        return self._persistence.has_room_for(event, self._proximity.own.peer)

    def _take(self, part: Raise, came_from: Peer | None) -> None:
        event, attribute, now = part.event, part.attribute, self._outbox.now
        self._membership.use(attribute)
        self._admitted.add((event.id, attribute), now)
        self._publishers.add((event.id.publisher, attribute), now)
        recent = self._recent.setdefault(attribute, deque(maxlen=RECENT_COUNT_MAX))
        recent.append((part, self._began_us(part.age_ms)))
        self._filters.set_recent(attribute, has_recent=True)
        # In unreliable variants a child that forwards an event has sent it down already.
        table = self._filters.tables[attribute]
        is_below = not self._settings.is_reliable and came_from in table.children
        excluded = came_from if is_below and came_from else NOBODY
        flight = self._dissemination.spread(attribute, event, part.hops, None, excluded=excluded)
        copies = len(flight.targets) + self._settings.backups
        self._shards.add_load(attribute, event.id.publisher, copies)
        if self._settings.is_reliable:
            self._take_custody(flight, part)
        else:
            self._answer(event.id, attribute)

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
        # An earlier rendezvous may have admitted it, and this node have kept it.
        return not self._replicas.was_completed(before)

    def _wait_for_predecessor(self, part: Raise) -> None:
        before = _predecessor(part)
        if self._early.is_awaited(before) or not self._has_room_to_wait():
            return
        timeout_us = self._times.timeout_us
        wait_us = min(self._settings.hold_us_max, 2 * timeout_us)
        if (part.event.id.publisher, part.attribute) not in self._publishers:
            # A new rendezvous has not seen the predecessor, which was most probably admitted.
            wait_us = min(wait_us, timeout_us // 2)
        self._early.hold(_place_of(part), part, before)
        self._outbox.set_timer(("reorder", *before), wait_us)

    def on_reorder_timer(
        self, attribute: str, publisher: Peer, incarnation: int, number: int
    ) -> None:
        """Stop waiting for a predecessor, unless it is here and waits itself.

        Its own timer may be longer, if responses took longer when it was set.
        """
        before = _EventPlace(attribute, publisher, incarnation, number)
        if self._early.is_awaited(before) and before in self._early:
            self._outbox.set_timer(("reorder", *before), self._times.timeout_us)
        else:
            self._early.pass_on(before)

    def _go_on_with(self, part: Raise) -> None:
        """Admit an event that has waited; if it is not admitted, its successors follow anyway."""
        self._overdue.add(_key_before(part), self._outbox.now)
        self.pass_up(part, None)

    # --- custody ---

    def _custodies(self, attribute: str | None = None) -> list[_Custody]:
        """The events in this node's custody, in the order of their flights."""
        flights = self._dissemination.root_flights(attribute)
        return [self._custody[flight.key] for flight in flights]

    def _take_custody(self, flight: Flight, part: Raise | Record) -> None:
        """Have an event recorded, and acknowledge it after that."""
        custody = _Custody(flight, self._began_us(part.age_ms), part.wants_all)
        self._custody[flight.key] = custody
        own = self._proximity.own.peer
        record = custody.record(self._outbox.now)
        self._persistence.keep_record(record, own)
        self._history.keep(flight.event, flight.attribute)
        self._audits.keep(flight.event, flight.attribute)
        self._record(custody, record)
        self._track(custody)
        self._acknowledge_if_recorded(custody)

    def _track(self, custody: _Custody) -> None:
        """Retransmit an event until it is confirmed and recorded."""
        self._dissemination.keep_at_root(custody.flight)
        self._shards.on_flight(custody.flight.key)
        self._set_timer(custody)

    def _record(self, custody: _Custody, record: Record | None = None) -> None:
        """Have an event recorded by those replicas that do not have it."""
        name = custody.flight.attribute.encode()
        for replica in self._proximity.farther(name, self._settings.backups):
            if replica.peer not in custody.recording and replica.peer not in custody.recorded:
                custody.recording[replica.peer] = None
                record = record or custody.record(self._outbox.now)
                self._outbox.queue(replica.peer, record)
                self._detector.probe_if_silent(replica.peer)

    def has_asked_to_record(self, id: EventId, attribute: str, peer: Peer) -> bool:
        """Whether an event is in this node's custody, and a replica has to say that it keeps it."""
        custody = self._custody.get((id, attribute))
        return custody is not None and (peer in custody.recording or peer in custody.recorded)

    def probe_around(self, attribute: str) -> None:
        """Nodes often fail together: find out at the same time which of the next ones are up."""
        count = PROBED_TIMES * (self._settings.backups + 1)
        for contact in self._proximity.closest(attribute.encode(), count):
            self._detector.probe_if_silent(contact.peer)

    def on_recorded(self, peer: Peer, part: Recorded) -> None:
        """A replica keeps an event, or has no room for it."""
        custody = self._custody.get((part.id, part.attribute))
        if custody is None or peer not in custody.recording:
            return
        del custody.recording[peer]
        if not part.is_full:
            custody.recorded[peer] = None
            custody.holders[peer] = part.evidence
        elif not custody.is_acknowledged and self._dissemination.drop_late():
            custody.recording[peer] = None
            self._outbox.queue(peer, custody.record(self._outbox.now))
        elif not custody.is_acknowledged:  # Otherwise the next tick asks it again.
            custody.is_acknowledged = True
            self._outbox.reject("records")
            reason = "a replica of the rendezvous has too many events in flight; try later"
            self._answer(part.id, part.attribute, reason)
        self._acknowledge_if_recorded(custody)

    def _acknowledge_if_recorded(self, custody: _Custody) -> None:
        if not custody.recording:
            if not custody.is_acknowledged:
                custody.is_acknowledged = True
                holders = tuple([_new(Holder, item) for item in custody.holders.items()])
                self._tell_publisher(Admitted(*custody.flight.key, "", holders=holders))
            self._conclude(custody)

    def _answer(self, id: EventId, attribute: str, refusal: str = "") -> None:
        self._tell_publisher(Admitted(id, attribute, refusal))

    def _tell_publisher(self, part: Admitted | Completed) -> None:
        self._outbox.queue(part.id.publisher, part)

    # --- confirmation and retransmission ---

    def on_confirmed(self, flight: Flight) -> None:
        """A child has confirmed an event."""
        custody = self._custody[flight.key]
        took_us = self._outbox.now - flight.sent_us
        self._confirmation.on_answer(took_us, was_repeated=custody.tries > 0)
        self._conclude(custody)

    def on_given_up(self, flight: Flight) -> None:
        """A child that does not confirm was given up: not all subscribers have the event."""
        custody = self._custody[flight.key]
        custody.wants_all = False
        self._conclude(custody)

    def _conclude(self, custody: _Custody) -> None:
        """End the custody of an event that is recorded and confirmed by all children."""
        flight = custody.flight
        if flight.targets or custody.recording:
            return
        id, attribute = flight.key
        self._dissemination.end(flight)
        self._custody.pop(flight.key, None)
        self._deadlines.cancel(flight.key)
        self._shards.on_concluded(flight.key)
        self._history.on_done(flight.key)
        keeping = dict.fromkeys(custody.recorded)
        for replica in self._proximity.farther(attribute.encode(), self._settings.backups):
            keeping[replica.peer] = None
        for peer in keeping:
            self._outbox.queue_late(peer, Done(id, attribute))
        if custody.wants_all:
            self._tell_publisher(Completed(id, attribute))

    def _set_timer(self, custody: _Custody) -> None:
        settings, targets = self._settings, custody.flight.targets
        # A peer that is down gets its events when it is up again, so few tries are enough.
        are_down = not custody.recording and all(map(self._detector.is_down, targets))
        timeout_us = self._confirmation.timeout_us(
            custody.tries,
            least_us=settings.check_us_min,
            most_us=settings.renew_us // 4 if are_down else settings.check_us_max,
        )
        self._deadlines.set(custody.flight.key, timeout_us)

    def on_timer(self) -> None:
        """Events in this node's custody are not confirmed by all children in time."""
        for key in self._deadlines.due():
            self._on_late(self._custody[key])

    def _on_late(self, custody: _Custody) -> None:
        flight = custody.flight
        custody.tries += 1
        if custody.tries >= self._settings.tries_max:
            self._shards.on_concluded(flight.key)  # No other event waits for it any longer.
        if all(not self._detector.is_down(peer) for peer in flight.targets):
            self._confirmation.on_timeout(flight.sent_us, self._outbox.now)
        if self._outbox.now - custody.began_us > 2 * self._settings.renew_us:
            self._dissemination.abandon(flight)
            custody.recording.clear()
            custody.wants_all = False
            self._conclude(custody)
            return
        for peer in custody.recording:
            self._outbox.queue(peer, custody.record(self._outbox.now))
            self._detector.probe(peer)
        self._dissemination.retransmit(flight)
        if flight.key in self._custody:  # This node may have confirmed it to itself.
            self._set_timer(custody)

    # --- replicas and children that come and go ---

    def on_peer_down(self, peer: Peer) -> None:
        """A replica is down: have its events recorded by another one."""
        for custody in self._custodies():
            was_recording = custody.recording.pop(peer, 0) is None
            if custody.recorded.pop(peer, 0) is None or was_recording:
                self._record(custody)
                self.probe_around(custody.flight.attribute)
                self._acknowledge_if_recorded(custody)
        self.on_heard(peer)

    def on_peer_restarted(self, peer: Peer) -> None:
        """A replica has restarted and has lost its records."""
        for custody in self._custodies():
            if custody.recorded.pop(peer, 0) is None:
                self._record(custody)

    def tick(self) -> None:
        """Have the events in this node's custody recorded by its present replicas."""
        for custody in self._custodies():
            self._record(custody)
            self._acknowledge_if_recorded(custody)

    def send_in_flight_to(self, attribute: str, peer: Peer) -> None:
        """Send the events in flight to a child that has lost its parent, and them perhaps too."""
        for custody in self._custodies(attribute):
            flight = custody.flight
            self._send_late(attribute, flight.event, flight.hops, custody.began_us, peer)

    def send_recent_to(self, attribute: str, peer: Peer, root_ms: int) -> None:
        """Send a child the events that were admitted here while it was a rendezvous itself.

        Before that, events may have been admitted here while the nodes below the child were below
        this node.
        """
        oldest = self._began_us(root_ms) - self._settings.timeout_us_max
        for part, began_us in list(self._recent.get(attribute, ())):
            if began_us > oldest:
                self._send_late(attribute, part.event, part.hops, began_us, peer)

    def _send_late(
        self, attribute: str, event: Publication, hops: int, began_us: int, peer: Peer
    ) -> None:
        """Send an event to a child that came after it was sent down the tree."""
        table = self._filters.tables[attribute]
        custody = self._custody.get((event.id, attribute))
        if custody is None:
            flight = self._dissemination.begin_late(attribute, event, hops)
            custody = _Custody(flight, began_us, is_acknowledged=True)
        flight = custody.flight
        if peer in table.interested(event.predicate).children and peer not in flight.targets:
            self._custody[flight.key] = custody
            self._dissemination.add_child(flight, peer)
            self._track(custody)
            self._dissemination.retransmit_to(flight, peer)

    # --- take-over and hand-over ---

    def records_of(self, attribute: str) -> tuple[Record, ...]:
        """The events of an attribute that this node has custody of, or keeps as a replica."""
        now = self._outbox.now
        own = [custody.record(now) for custody in self._custodies(attribute)]
        return (*own, *self._replicas.records_of(attribute))

    def take_over(self, attribute: str, records: tuple[Record, ...]) -> None:
        """Take custody of the events of a former rendezvous."""
        oldest = self._outbox.now - 2 * self._settings.renew_us
        for part in records:
            key = (part.event.id, part.attribute)
            if self._dissemination.is_full:
                self._outbox.reject("events")
                continue  # It stays where it is kept, and there may be room later.
            self._replicas.forget(key)
            if self._began_us(part.age_ms) <= oldest:
                continue  # A subscriber without it has lapsed.
            if not self._signing.is_signed(part.event):
                self._outbox.reject("signature")
            elif self._admitted.add(key, self._outbox.now):
                flight = self._dissemination.spread(
                    attribute, part.event, part.hops, None, is_resend=True
                )
                self._take_custody(flight, part)

    def hand_over(self, attribute: str) -> None:
        """Hand the events of this node to the rendezvous that has taken its place.

        The other one may have been the rendezvous all the time and know other subscribers. So it
        also gets events that are confirmed here; subscribers deliver an event once.
        """
        oldest = self._outbox.now - 2 * self._settings.renew_us
        for part, began_us in self._recent.pop(attribute, ()):
            if began_us > oldest:
                age_ms = (self._outbox.now - began_us) // MS
                self.pass_up(part._replace(previous=0, is_retry=True, age_ms=age_ms), None)
        self._filters.set_recent(attribute, has_recent=False)
        for custody in self._custodies(attribute):
            if not custody.is_acknowledged:
                self._disowned.add(custody.flight.key, self._outbox.now)
            custody.is_acknowledged = True  # The other rendezvous acknowledges it.
            self._conclude(custody)

    def forget(self, attribute: str) -> None:
        """The node leaves a tree."""
        self._recent.pop(attribute, None)

    # --- events that are kept for other rendezvous ---

    def restore(self, owner: Peer, record: Record) -> None:
        """Keep a stored event again; take custody of it if this node had it."""
        self._replicas.keep(record, owner)
        if owner == self._proximity.own.peer:
            tree = self._membership.join(record.attribute)
            if tree is not None and tree.role is Role.ROOT:
                self.take_over(record.attribute, (record,))

    def check_replicas(self) -> None:
        """Drop kept events that are too old, and find a rendezvous for those without one."""
        oldest = self._outbox.now - 2 * self._settings.renew_us
        for key, kept in list(self._replicas.kept.items()):
            if kept.began_us < oldest:
                self._replicas.forget(key)
            elif self._detector.is_down(kept.owner) or self._is_left_over(kept):
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
        event, attribute, hops, wants_all, age_ms = record
        hop = self.pass_up(
            Raise(event, attribute, 0, hops, True, wants_all, age_ms, is_permitted=True), None
        )
        if hop is not None:
            self._replicas.keep(record, hop)

    # --- invariants ---

    def check(self) -> None:
        """Assert the invariants of custody and of the events that wait."""
        flights = {flight.key: flight for flight in self._dissemination.root_flights()}
        assert flights.keys() == self._custody.keys()
        for key, custody in self._custody.items():
            assert custody.flight is flights[key]
            assert not any(peer in custody.recorded for peer in custody.recording)
            assert custody.flight.targets or custody.recording
        self._early.check()
        for place in self._early:
            part = self._early.get(place)
            assert part is not None
            assert part.previous < part.event.id.number
        assert all(len(recent) <= RECENT_COUNT_MAX for recent in self._recent.values())
        self._deadlines.check()
        assert len(self._deadlines) <= len(self._custody), "an event is awaited that is completed"
