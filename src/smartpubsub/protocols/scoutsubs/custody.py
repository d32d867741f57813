"""Custody at the rendezvous: an event is recorded, acknowledged, and retransmitted until confirmed.

The rendezvous has its replicas record an event and only then acknowledges it to the publisher. It
retransmits the event until all children have confirmed it, and then tells the replicas that they
need not keep it any longer.
"""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.runtime.deadlines import Deadlines
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.audit_keeper import AuditKeeper
from smartpubsub.protocols.scoutsubs.dissemination import Dissemination
from smartpubsub.protocols.scoutsubs.duplicates import EventKey
from smartpubsub.protocols.scoutsubs.filters import Filters
from smartpubsub.protocols.scoutsubs.flight import FlightState, RootFlight
from smartpubsub.protocols.scoutsubs.forwarding import Forwarding
from smartpubsub.protocols.scoutsubs.history import History
from smartpubsub.protocols.scoutsubs.messages import (
    Admitted,
    Completed,
    Done,
    Holder,
    Record,
    Recorded,
)
from smartpubsub.protocols.scoutsubs.persistence import Persistence
from smartpubsub.protocols.scoutsubs.proximity import Proximity
from smartpubsub.protocols.scoutsubs.replica_choice import ReplicaChoice
from smartpubsub.protocols.scoutsubs.replicas import EventReplicas
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shards import Shards
from smartpubsub.protocols.scoutsubs.timeouts import AdaptiveTimeout
from smartpubsub.seam import Peer


@dataclass(eq=False)
class Custody:
    """The events in the custody of this node, which are the flights of `Dissemination` at roots."""

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _detector: FailureDetector
    _proximity: Proximity
    _choice: ReplicaChoice
    _persistence: Persistence
    _filters: Filters
    _history: History
    _audits: AuditKeeper
    _replicas: EventReplicas
    _shards: Shards
    _dissemination: Dissemination
    _forwarding: Forwarding

    def __post_init__(self) -> None:
        self._confirmation = AdaptiveTimeout(self._settings.check_us_min // 4)
        self._deadlines: Deadlines[EventKey] = Deadlines(self._outbox, "confirm")

    # --- recording and acknowledgement ---

    def take(self, flight: RootFlight) -> None:
        """Ask the replicas to record an event, and acknowledge it after that."""
        record = flight.record(self._outbox.now)
        self._persistence.keep_record(record, self._proximity.own.peer)
        self._history.keep(flight.event, flight.attribute)
        self._audits.keep(flight.event, flight.attribute)
        self._record(flight, record)
        self._track(flight)
        self._acknowledge_if_recorded(flight)

    def record_again(self, flight: RootFlight) -> None:
        """Acknowledge an event once more, after the replicas of now have recorded it."""
        flight.move("published again")
        self._record(flight)
        self._acknowledge_if_recorded(flight)

    def _track(self, flight: RootFlight) -> None:
        """Retransmit an event until it is confirmed and recorded."""
        self._shards.on_flight(flight.key)
        self._set_timer(flight)

    def _record(self, flight: RootFlight, record: Record | None = None) -> None:
        """Ask the replicas that do not have an event to record it."""
        name = flight.attribute.encode()
        for replica in self._choice.farther(name):
            if replica.peer not in flight.recording and replica.peer not in flight.recorded:
                flight.recording[replica.peer] = None
                self._choice.end(replica.peer, flight.key)
                record = record or flight.record(self._outbox.now)
                self._outbox.queue(replica.peer, record)
                self._detector.probe_if_silent(replica.peer)

    def has_asked_to_record(self, id: EventId, attribute: str, peer: Peer) -> bool:
        """Whether this node has custody of an event, and has asked a replica to record it."""
        flight = self._dissemination.root_flight((id, attribute))
        return flight is not None and (peer in flight.recording or peer in flight.recorded)

    def on_recorded(self, peer: Peer, part: Recorded) -> None:
        """Take the answer of a replica that keeps an event, or has no room for it."""
        flight = self._dissemination.root_flight((part.id, part.attribute))
        if flight is None or peer not in flight.recording:
            return
        del flight.recording[peer]
        self._choice.end(peer, flight.key)
        if not part.is_full:
            flight.recorded[peer] = None
            flight.holders[peer] = part.evidence
        elif not flight.is_acknowledged and self._dissemination.drop_late():
            flight.recording[peer] = None
            self._outbox.queue(peer, flight.record(self._outbox.now))
        elif not flight.is_acknowledged:  # Otherwise the next tick asks it again.
            flight.acknowledge()
            self._outbox.reject("records")
            reason = "a replica of the rendezvous has too many events in flight; try later"
            self._answer_publisher(Admitted(part.id, part.attribute, reason))
        self._acknowledge_if_recorded(flight)

    def _acknowledge_if_recorded(self, flight: RootFlight) -> None:
        if not flight.recording:
            if not flight.is_acknowledged:
                flight.acknowledge()
                holders = tuple([Holder(peer, flight.holders[peer]) for peer in flight.recorded])
                self._answer_publisher(Admitted(*flight.key, "", holders=holders))
            self._conclude(flight)

    def _answer_publisher(self, part: Admitted | Completed) -> None:
        self._outbox.queue(part.id.publisher, part)

    # --- confirmation and retransmission ---

    def on_confirmed(self, flight: RootFlight) -> None:
        """Note that a child has confirmed an event."""
        took_us = self._outbox.now - flight.sent_us
        self._confirmation.on_answer(took_us, was_repeated=flight.tries > 0)
        self._conclude(flight)

    def on_given_up(self, flight: RootFlight) -> None:
        """Note that a child was given up, so not all subscribers have the event."""
        flight.wants_all = False
        self._conclude(flight)

    def _conclude(self, flight: RootFlight) -> None:
        """End the custody of an event that is recorded and confirmed by all children."""
        if flight.targets or flight.recording:
            return
        id, attribute = flight.key
        self._dissemination.end(flight)
        self._deadlines.cancel(flight.key)
        self._shards.on_concluded(flight.key)
        if flight.key not in self._replicas.kept:  # Otherwise another rendezvous completes it.
            self._history.on_done(flight.key)
        keeping = dict.fromkeys(flight.recorded)
        for replica in self._choice.farther(attribute.encode()):
            keeping[replica.peer] = None
        for peer in keeping:
            self._outbox.queue_late(peer, Done(id, attribute))
        if flight.wants_all:
            self._answer_publisher(Completed(id, attribute))

    def _set_timer(self, flight: RootFlight) -> None:
        settings = self._settings
        # A peer that is down gets its events when it is up again, so few tries are enough.
        are_down = not flight.recording and all(map(self._detector.is_down, flight.targets))
        timeout_us = self._confirmation.timeout_us(
            flight.tries,
            least_us=settings.check_us_min,
            most_us=settings.renew_us // 4 if are_down else settings.check_us_max,
        )
        self._deadlines.set(flight.key, timeout_us)

    def on_timer(self) -> None:
        """Retransmit the events that not all children have confirmed in time."""
        for key in self._deadlines.due():
            flight = self._dissemination.root_flight(key)
            assert flight is not None
            self._on_late(flight)

    def _on_late(self, flight: RootFlight) -> None:
        flight.tries += 1
        if flight.tries >= self._settings.tries_max:
            self._shards.on_concluded(flight.key)  # No other event waits for it any longer.
        if all(not self._detector.is_down(peer) for peer in flight.targets):
            self._confirmation.on_timeout(flight.sent_us, self._outbox.now)
        if self._outbox.now - flight.began_us > 2 * self._settings.renew_us:
            flight.abandon()
            flight.recording.clear()
            flight.wants_all = False
            self._conclude(flight)
            return
        self._record_late(flight)
        self._dissemination.retransmit(flight)
        if flight.targets or flight.recording:  # This node may have confirmed it to itself.
            self._set_timer(flight)

    def _record_late(self, flight: RootFlight) -> None:
        late = list(flight.recording)
        for peer in late:
            self._choice.on_timeout(peer, flight.key)
        for peer in late:
            if peer in flight.recording:  # Otherwise it was left out.
                self._outbox.queue(peer, flight.record(self._outbox.now))
                self._detector.probe(peer)
                self._choice.on_repeated(peer, flight.key)

    # --- replicas and children that come and go ---

    def on_replica_silent(self, peer: Peer) -> None:
        """Ask another replica to record the events that one which is left out has not recorded."""
        for flight in self._dissemination.root_flights():
            if peer in flight.recording:
                del flight.recording[peer]
                self._record(flight)
                self._acknowledge_if_recorded(flight)

    def on_peer_down(self, peer: Peer) -> None:
        """Ask another replica to record the events of one that is down."""
        for flight in self._dissemination.root_flights():
            was_recording = flight.recording.pop(peer, 0) is None
            if flight.recorded.pop(peer, 0) is None or was_recording:
                self._record(flight)
                self._forwarding.probe_around(flight.attribute)
                self._acknowledge_if_recorded(flight)

    def on_peer_restarted(self, peer: Peer) -> None:
        """Ask a replica that has restarted, and lost its records, to record events again."""
        for flight in self._dissemination.root_flights():
            if flight.recorded.pop(peer, 0) is None:
                self._record(flight)

    def tick(self) -> None:
        """Ask new replicas to record the events in this node's custody."""
        for flight in self._dissemination.root_flights():
            self._record(flight)
            self._acknowledge_if_recorded(flight)

    def send_in_flight_to(self, attribute: str, peer: Peer) -> None:
        """Send the events in flight to a child that has lost its parent, and perhaps events."""
        for flight in self._dissemination.root_flights(attribute):
            self.send_late(attribute, flight.event, flight.hops, flight.began_us, peer)

    def send_late(
        self, attribute: str, event: Publication, hops: int, began_us: int, peer: Peer
    ) -> None:
        """Send an event to a child that came after it was sent down the tree."""
        if peer not in self._filters.tables[attribute].interested(event.predicate).children:
            return
        flight = self._dissemination.root_flight((event.id, attribute))
        if flight is None:
            flight = RootFlight(
                *(event, attribute, hops, None, self._outbox.now),
                state=FlightState.CONFIRMED,
                began_us=began_us,
            )
        if peer not in flight.targets:
            self._dissemination.add_child(flight, peer)
            self._track(flight)
            self._dissemination.retransmit_to(flight, peer)

    def hand_over(self, flight: RootFlight) -> None:
        """End the custody of an event that another rendezvous takes over and acknowledges."""
        if not flight.is_acknowledged:
            flight.acknowledge()
        self._conclude(flight)

    # --- invariants ---

    def check(self) -> None:
        """Assert the invariants: only events in flight have deadlines."""
        flights = self._dissemination.root_flights()
        self._deadlines.check()
        assert len(self._deadlines) <= len(flights), "an event is awaited that is completed"
