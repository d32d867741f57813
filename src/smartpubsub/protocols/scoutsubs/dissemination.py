"""Events in flight: from the rendezvous down the tree, and their confirmations back up.

Each node sends an event to the children with a matching filter, and confirms it to its parent when
all of them have confirmed it. Only the rendezvous retransmits an event, to the children that have
not confirmed it. A node that gets a retransmission does the same, and also sends the event to the
replicas of children that do not answer; a replica forwards it to the children of the node that it
is a replica of.

Any node may send an event down a tree. So the events of other nodes, which are **relayed**, have
room of their own, of which each peer that sends some has a share. An event beyond it is dropped,
and its sender sends it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.ledger import Ledger
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.publication import EventId, Publication, Signing
from smartpubsub.protocols.pubsub import Delivery
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.duplicates import DuplicateWindow, EventKey
from smartpubsub.protocols.scoutsubs.filter_table import FormerChild, ScoutChild
from smartpubsub.protocols.scoutsubs.filters import Filters
from smartpubsub.protocols.scoutsubs.flight import (
    FLIGHT_BYTES,
    Flight,
    FlightTarget,
    RootFlight,
)
from smartpubsub.protocols.scoutsubs.local_delivery import LocalDelivery
from smartpubsub.protocols.scoutsubs.messages import (
    NO_PEER,
    Confirm,
    NoCopy,
    Notify,
    Offer,
    Want,
)
from smartpubsub.protocols.scoutsubs.recent_events import RecentEvents
from smartpubsub.protocols.scoutsubs.recovery import Recovery
from smartpubsub.protocols.scoutsubs.replicas import TableReplicas
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import base_name, sibling_names
from smartpubsub.protocols.scoutsubs.timeouts import ResponseTimes
from smartpubsub.seam import Peer

_NO_FLIGHTS: Mapping[Peer, Flight] = MappingProxyType({})
DROPPED_SHARE = 100
"""A node drops one in this many late events of a child at a time, as finding them takes long."""
SEARCH_US = SECOND
"""A node that finds no late relayed events looks for some again after this time."""


@dataclass(slots=True)
class _ChildLink:
    """The events under way to a child."""

    child: ScoutChild
    path: Peer = NO_PEER
    """The peer that the last event was sent to: the child, or the end of its shortcut."""
    sent_us: int = -1 << 62
    outstanding: int = 0
    """The number of events that were sent and are not confirmed."""
    held: list[EventKey] = field(default_factory=list)
    """Events that wait for the outstanding ones, which they must not overtake."""


@dataclass(eq=False)
class Dissemination:
    """The events in flight at this node.

    `_on_spread` is called with each event that this node has sent on, and its attribute. At the
    rendezvous, `_on_confirmed` is called when a child has confirmed an event, and `_on_given_up`
    when the node stops sending it to a child that does not confirm it.
    """

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _ledger: Ledger
    _own: Contact
    _signing: Signing
    _detector: FailureDetector
    _times: ResponseTimes
    _recovery: Recovery
    _replicas: TableReplicas
    _filters: Filters
    _delivery: LocalDelivery
    _recent: RecentEvents
    _on_spread: Callable[[Publication, str], None]
    _on_confirmed: Callable[[RootFlight], None]
    _on_given_up: Callable[[RootFlight], None]

    def __post_init__(self) -> None:
        settings = self._settings
        self._flights: dict[EventKey, dict[Peer, Flight]] = {}
        """By event and attribute, and by the node on whose behalf they are sent."""
        self._root_count = 0
        bytes_max = settings.relayed_bytes_max
        self.account = self._ledger.open("events in flight", bytes_max, bytes_max // 2)
        """The flights of other nodes' events, by the node that each has come from."""
        self._search_us = 0
        """When to look for late relayed events again."""
        self._links: dict[tuple[str, Peer], _ChildLink] = {}
        self._delivered = DuplicateWindow(settings.seen_us, settings.seen_count_max)
        self._has_shards = False
        """Whether any event has come by a shard of a split attribute."""

    # --- flights ---

    @property
    def flight_count(self) -> int:
        """The number of events in flight from this node as the rendezvous."""
        return self._root_count

    @property
    def is_full(self) -> bool:
        """Whether the rendezvous can take no more events until some are confirmed."""
        return self._root_count >= self._settings.record_count_max and not self.drop_late()

    def _has_room_for(self, event: Publication, peer: Peer) -> bool:
        """Whether there is room for an event that a peer has sent down a tree."""
        if self._is_within_share(event, peer):
            return True
        now = self._outbox.now
        if now >= self._search_us and not self._drop_late(self._late_flights(are_relayed=True)):
            self._search_us = now + SEARCH_US
        if self._is_within_share(event, peer):
            return True
        self.account.refuse()
        return False

    def _is_within_share(self, event: Publication, peer: Peer) -> bool:
        """Whether a peer would leave at least as much room as it has taken."""
        more = FLIGHT_BYTES + event.wire_bytes
        room = self.account.size_max - self.account.size
        return self.account.size_of(peer) + 2 * more <= room

    # --- children that do not confirm ---

    def drop_late(self) -> bool:
        """Make room at the rendezvous: drop the oldest late events of the child that has most.

        Return whether there was any. So a child that confirms nothing loses events itself, and
        does not take the room of others.
        """
        return self._drop_late(self._late_flights(are_relayed=False))

    def _drop_late(self, late: dict[Peer, list[Flight]]) -> bool:
        if not late:
            return False
        peer, flights = max(late.items(), key=lambda item: len(item[1]))
        for flight in flights[: max(1, len(flights) // DROPPED_SHARE)]:
            self._give_up(flight, peer)
        return True

    def _late_flights(self, *, are_relayed: bool | None = None) -> dict[Peer, list[Flight]]:
        """By child: events that it has not confirmed for long, of one kind or of both.

        The rendezvous has also retransmitted them. A relay may be sent an event only once.
        """
        horizon_us = self._outbox.now - self._settings.late_us
        late: dict[Peer, list[Flight]] = {}
        for flights in self._flights.values():
            for flight in flights.values():
                is_relayed = not isinstance(flight, RootFlight)
                if flight.sent_us > horizon_us or are_relayed not in (is_relayed, None):
                    continue
                for peer, target in flight.targets.items():
                    if target.tries or is_relayed:
                        late.setdefault(peer, []).append(flight)
        return late

    def _give_up(self, flight: Flight, peer: Peer) -> None:
        self._outbox.reject("late events")
        flight.drop_child(peer)
        if isinstance(flight, RootFlight):
            self._on_given_up(flight)
        else:
            self._end_if_confirmed(flight)

    def has_spread(self, key: EventKey) -> bool:
        """Whether an event has arrived by a tree, or by another shard of its attribute."""
        id, attribute = key
        others = ((id, name) for name in sibling_names(attribute))
        return key in self._delivered or any(other in self._delivered for other in others)

    def is_replay(self, key: EventKey) -> bool:
        """Whether an event is older than those that this node remembers."""
        return self._delivered.is_replay(key)

    def root_flight(self, key: EventKey) -> RootFlight | None:
        """An event in flight from this node as the rendezvous."""
        flight = self._flights.get(key, _NO_FLIGHTS).get(NO_PEER)
        return flight if isinstance(flight, RootFlight) else None

    def root_flights(self, attribute: str | None = None) -> list[RootFlight]:
        """All events in flight from this node as the rendezvous, or those of one attribute."""
        found = [self.root_flight(key) for key in self._flights if attribute in (None, key[1])]
        return [flight for flight in found if flight is not None]

    # --- down the tree ---

    def on_notify(self, peer: Peer, part: Notify) -> None:
        """Deliver, send on or confirm an event that comes down the tree."""
        if not self._recovery.knows_children(part.attribute):
            return  # The children may not be known yet; the event will be retransmitted.
        now, key = self._outbox.now, (part.event.id, part.attribute)
        flight = self._flights.get(key, _NO_FLIGHTS).get(part.on_behalf)
        if isinstance(flight, RootFlight):
            self._on_notify_in_custody(peer, flight)
        elif flight is not None:
            flight.upstream = peer
            is_due = now - flight.retransmitted_us >= self._times.timeout_us
            if part.is_resend and is_due:
                self.retransmit(flight)
        elif part.on_behalf == NO_PEER and (
            part.attribute not in self._filters.tables or key in self._delivered
        ):
            self._confirm(peer, key, NO_PEER)
        elif self._delivered.is_replay(key):
            self._outbox.reject("replay")
        elif not self._has_room_for(part.event, peer):
            self._outbox.reject("events")  # An unconfirmed event is retransmitted.
        elif not self._signing.is_signed(part.event):
            self._outbox.reject("signature")
        elif part.on_behalf != NO_PEER:
            self._stand_in(peer, part)
        else:
            # The event may have been lost for long on its way here.
            is_late = part.is_resend or now - part.event.created_us > self._times.timeout_us
            late_us = 2 * (self._settings.renew_us if is_late else self._times.timeout_us)
            table = self._filters.tables[part.attribute]
            former = table.former_interested(part.event.predicate, now - late_us)
            flight = Flight(part.event, part.attribute, part.hops, peer, now)
            self.spread(flight, former=former)

    def _on_notify_in_custody(self, peer: Peer, flight: RootFlight) -> None:
        """Confirm an event in custody of this node, a former rendezvous, after its children have.

        If this node restarts before that, its children depend on the present rendezvous, which
        retransmits the event until then. Two nodes that take each other for a child do not wait
        for each other.
        """
        if all(target == peer for target in flight.targets):
            self._confirm(peer, flight.key, NO_PEER)

    def spread(
        self,
        flight: Flight,
        *,
        excluded: Peer = NO_PEER,
        is_resend: bool = False,
        former: Mapping[Peer, FormerChild] = MappingProxyType({}),
    ) -> None:
        """Deliver an event here and send it to all interested children, present and former."""
        event, attribute = flight.event, flight.attribute
        table = self._filters.tables[attribute]
        own, children = table.interested(event.predicate)
        is_first = self._delivered.add(flight.key, self._outbox.now)
        self._has_shards = self._has_shards or base_name(attribute) != attribute
        if is_first and own and not self._came_by_sibling(event.id, attribute):
            self._delivery.deliver(Delivery(event, own, flight.hops))
        targets = {
            peer: FlightTarget(table.children[peer].backups)
            for peer in children
            if peer != excluded
        }
        if former:
            targets |= {peer: FlightTarget(child.backups) for peer, child in former.items()}
        flight.await_children(targets)
        for peer in list(targets):
            if is_resend or self._detector.is_down(peer) or peer in former:
                self.retransmit_to(flight, peer)
            else:
                self._send_first(flight, table.children[peer])
        self._keep(flight)
        self._recent.keep(event, flight.hops)
        self._on_spread(event, attribute)

    def _came_by_sibling(self, id: EventId, attribute: str) -> bool:
        """Whether an event has arrived by another shard.

        A publisher without an acknowledgement may send it again by another shard.
        """
        if not self._has_shards:
            return False
        return any((id, name) in self._delivered for name in sibling_names(attribute))

    def add_child(self, flight: RootFlight, peer: Peer) -> None:
        """Wait for a child that came after an event was sent down the tree."""
        flight.add_child(peer, self._filters.tables[flight.attribute].children[peer].backups)
        self._keep(flight)

    def _keep(self, flight: Flight) -> None:
        """Keep an event in flight until all children have confirmed it.

        The rendezvous also waits until replicas have recorded it.
        """
        if not self._settings.is_reliable:
            return
        if flight.targets or isinstance(flight, RootFlight):
            flights = self._flights.setdefault(flight.key, {})
            before = flights.get(flight.on_behalf)
            if before is not None:
                self._count(before, -1)
            flights[flight.on_behalf] = flight
            self._count(flight, 1)
        else:
            self._confirm_upward(flight)

    def _count(self, flight: Flight, difference: int) -> None:
        if isinstance(flight, RootFlight):
            self._root_count += difference
        else:
            self.account.change(flight.came_from, difference * flight.memory_bytes)

    def _stand_in(self, peer: Peer, part: Notify) -> None:
        """Forward an event to the children of another node, from the replica of its table."""
        kept = self._replicas.kept.get((part.on_behalf, part.attribute))
        if kept is None:
            self._outbox.queue(peer, NoCopy(part.event.id, part.attribute, part.on_behalf))
            return
        targets = {
            child.contact.peer: FlightTarget(child.backups)
            for child in kept.children.values()
            if any(wanted.matches(part.event.predicate) for wanted in child.filters)
        }
        flight = Flight(
            *(part.event, part.attribute, part.hops, peer, self._outbox.now, part.on_behalf)
        )
        flight.await_children(targets)
        self._keep(flight)
        self.retransmit(flight)

    # --- first transmission ---

    def _link(self, attribute: str, child: ScoutChild) -> _ChildLink:
        """The link to a child; a child that has come back gets a new one."""
        name = attribute, child.contact.peer
        link = self._links.get(name)
        if link is None or link.child is not child:
            link = self._links[name] = _ChildLink(child)
        return link

    def _send_first(self, flight: Flight, child: ScoutChild) -> None:
        """Send an event to a child for the first time, or to its shortcut.

        An event on another path could overtake the events under way. So the node takes a shortcut
        only when all earlier events are confirmed or, in unreliable variants, have had time to
        arrive. After a shortcut is withdrawn, events wait.
        """
        link = self._link(flight.attribute, child)
        by_child = child.contact.peer
        path = child.shortcut.peer if child.shortcut else by_child
        if path != link.path and not self._detector.is_down(link.path):
            ago_us = self._outbox.now - link.sent_us
            has_arrived = self._settings.is_reliable or ago_us >= self._times.timeout_us
            if link.path == by_child and (link.outstanding or not has_arrived):
                path = by_child
            elif link.path != by_child and link.outstanding:
                link.held.append(flight.key)
                return
        self._send_by(flight, link, path)

    def _send_by(self, flight: Flight, link: _ChildLink, path: Peer) -> None:
        child = link.child
        if self._settings.is_reliable:
            link.outstanding += 1
        link.path, link.sent_us = path, self._outbox.now
        event, attribute = flight.event, flight.attribute
        goes_straight = path == (child.shortcut or child.contact).peer
        if goes_straight and child.gets_elsewhere(event.predicate):
            self._outbox.queue(path, Offer(event.id, attribute, event.predicate))
        else:
            if flight.notify is None:
                flight.notify = Notify(event, attribute, flight.hops + 1, False, NO_PEER)
            self._outbox.queue(path, flight.notify)

    def on_want(self, peer: Peer, part: Want) -> None:
        """Send a child an event that it was offered and requests."""
        table = self._filters.tables.get(part.attribute)
        found = self._recent.get(part.id)
        if table is None or found is None:
            return
        for child in table.children.values():
            path = self._link(part.attribute, child).path
            if peer in (child.contact.peer, path) and any(
                wanted.matches(found.event.predicate) for wanted in child.filters
            ):
                hops = found.hops + 1
                self._outbox.queue(peer, Notify(found.event, part.attribute, hops, False, NO_PEER))
                return

    # --- retransmission ---

    def retransmit(self, flight: Flight) -> None:
        """Send an event again to the children that have not confirmed it."""
        flight.retransmitted_us = self._outbox.now
        for peer in list(flight.targets):
            if peer not in flight.targets:
                continue  # A node that stands in may confirm to itself meanwhile.
            if self._is_under_way(flight, peer):
                self._detector.probe(peer)  # It may be down.
            else:
                self.retransmit_to(flight, peer)

    def _is_under_way(self, flight: Flight, peer: Peer) -> bool:
        """Whether an event may still be on its way to a child whose link is full.

        A copy of it would only wait behind it, and delay all that follows.
        """
        if not self._detector.is_slow(peer) or self._detector.is_down(peer):
            return False
        target = flight.targets[peer]
        sent_us = target.sent_us if target.tries else flight.sent_us
        return self._outbox.now - sent_us < self._times.timeout_us_for(peer)

    def retransmit_to(self, flight: Flight, peer: Peer) -> None:
        """Send an event to a child again, and after some tries also to one of its replicas."""
        target = flight.targets[peer]
        part = Notify(flight.event, flight.attribute, flight.hops + 1, True, NO_PEER)
        if peer == self._own.peer:  # This node stands in for its own parent.
            self.on_notify(peer, part)
            return
        self._release_link(flight.attribute, peer)
        if not self._detector.is_down(peer):
            self._outbox.queue(peer, part)
        self._detector.probe(peer)  # A peer that does not answer gets nothing until it is up.
        is_down = self._detector.is_down(peer)
        if target.backups and (is_down or self._is_lost_on(peer, flight, target)):
            backup = target.backups[target.tries % len(target.backups)].peer
            if backup == self._own.peer:
                self.on_notify(backup, part._replace(on_behalf=peer))
            else:
                self._outbox.queue(backup, part._replace(on_behalf=peer))
        target.tries += 1
        target.sent_us = self._outbox.now

    def _is_lost_on(self, peer: Peer, flight: Flight, target: FlightTarget) -> bool:
        """Whether a child seems not to get events; one that is heard from may just be slow."""
        is_heard = self._detector.heard_us(peer) > flight.sent_us
        return target.tries > (self._settings.tries_max if is_heard else 0)

    def _release_link(self, attribute: str, peer: Peer) -> None:
        """Let later events pass one that has to be retransmitted."""
        link = self._current_link(attribute, peer)
        if link is not None:
            link.outstanding = 0
            self._release_held(link)

    def _current_link(self, attribute: str, peer: Peer) -> _ChildLink | None:
        table = self._filters.tables.get(attribute)
        child = None if table is None else table.children.get(peer)
        return None if child is None else self._link(attribute, child)

    def _release_held(self, link: _ChildLink) -> None:
        held, link.held = link.held, []
        for key in held:
            flight = self._flights.get(key, {}).get(NO_PEER)
            if flight is not None and link.child.contact.peer in flight.targets:
                self._send_first(flight, link.child)

    # --- confirmations ---

    def _confirm(self, peer: Peer, key: EventKey, on_behalf: Peer) -> None:
        if not self._settings.is_reliable:
            return
        part = Confirm(*key, on_behalf)
        if peer == self._own.peer:
            self.on_confirm(peer, part)
        else:
            self._outbox.queue(peer, part)

    def awaits(self, peer: Peer, part: Confirm) -> bool:
        """Whether a confirmation of a peer is for a child that has not confirmed an event."""
        for flight in self._flights.get((part.id, part.attribute), _NO_FLIGHTS).values():
            if self._confirmed_child(flight, peer, part.on_behalf) is not None:
                return True
        return False

    def has_asked_to_stand_in(self, peer: Peer, part: NoCopy) -> bool:
        """Whether a peer is a replica of a child that has not confirmed an event."""
        flights = self._flights.get((part.id, part.attribute), {}).values()
        targets = [flight.targets.get(part.on_behalf) for flight in flights]
        backups = [contact.peer for target in targets if target for contact in target.backups]
        return peer in backups

    def is_served(self, attribute: str, peer: Peer) -> bool:
        """Whether a peer is a child, or the node that the last event for a child was sent to."""
        table = self._filters.tables.get(attribute)
        if table is None:
            return False
        links = (self._links.get((attribute, child)) for child in table.children)
        return peer in table.children or any(link and link.path == peer for link in links)

    def on_confirm(self, peer: Peer, part: Confirm) -> None:
        """Take the confirmation that a node and all nodes below it have an event."""
        for flight in list(self._flights.get((part.id, part.attribute), _NO_FLIGHTS).values()):
            child = self._confirmed_child(flight, peer, part.on_behalf)
            if child is None:
                continue
            flight.drop_child(child)
            link = self._current_link(flight.attribute, child)
            if link is not None:
                link.outstanding = max(0, link.outstanding - 1)
                if link.outstanding == 0:
                    self._release_held(link)
            if isinstance(flight, RootFlight):
                self._on_confirmed(flight)
            else:
                self._end_if_confirmed(flight)

    def _end_if_confirmed(self, flight: Flight) -> None:
        if not flight.targets:
            self.end(flight)
            self._confirm_upward(flight)

    def _confirm_upward(self, flight: Flight) -> None:
        assert flight.upstream is not None
        self._confirm(flight.upstream, flight.key, flight.on_behalf)

    def _confirmed_child(self, flight: Flight, peer: Peer, on_behalf: Peer) -> Peer | None:
        """Return the child that a confirmation counts for, if there is one.

        It is the sender, a child whose shortcut leads to the sender, or the child that the sender
        was asked to stand in for.
        """
        if on_behalf == NO_PEER and peer in flight.targets:
            return peer
        if on_behalf != NO_PEER:
            target = flight.targets.get(on_behalf)
            asked = (*target.backups, self._own) if target is not None else ()
            return on_behalf if any(contact.peer == peer for contact in asked) else None
        for target_peer in flight.targets:
            link = self._current_link(flight.attribute, target_peer)
            if link is not None and link.path == peer:
                return target_peer
        return None

    def end(self, flight: Flight) -> None:
        """Remove an event that is not in flight any more."""
        flights = self._flights.get(flight.key, {})
        kept = flights.pop(flight.on_behalf, None)
        if kept is not None:
            self._count(kept, -1)
            if not flights:
                del self._flights[flight.key]

    def on_no_copy(self, peer: Peer, part: NoCopy) -> None:
        """Send the next retransmission to another replica: this one has no copy."""
        for flight in self._flights.get((part.id, part.attribute), {}).values():
            target = flight.targets.get(part.on_behalf)
            if target is not None:
                target.backups = tuple(c for c in target.backups if c.peer != peer)

    # --- children that come and go ---

    def on_child_announced(self, attribute: str, peer: Peer, *, is_restarted: bool) -> None:
        """Retransmit unconfirmed events to a child that has announced filters: it may lack them."""
        if is_restarted:
            link = self._current_link(attribute, peer)
            if link is not None:
                link.outstanding = 0
        self._send_unconfirmed(peer, attribute)

    def on_peer_up(self, peer: Peer) -> None:
        """Send a child that is up again the events that it has missed."""
        self._send_unconfirmed(peer)

    def _send_unconfirmed(self, peer: Peer, attribute: str | None = None) -> None:
        for flight in self._flights_to(peer):
            if flight.targets[peer].tries and attribute in (None, flight.attribute):
                part = Notify(flight.event, flight.attribute, flight.hops + 1, True, NO_PEER)
                self._outbox.queue(peer, part)

    def on_peer_down(self, peer: Peer) -> None:
        """Send the events for the nodes below a child that is down to its replicas."""
        for flight in self._flights_to(peer):
            target = flight.targets.get(peer)  # A node that stands in may confirm to itself.
            if target is not None and target.backups:
                self.retransmit_to(flight, peer)

    def _flights_to(self, peer: Peer) -> list[Flight]:
        every = [flight for flights in self._flights.values() for flight in flights.values()]
        return [flight for flight in every if peer in flight.targets]

    def tick(self) -> None:
        """Remove events that no parent has retransmitted for long, and links to former children."""
        oldest = self._outbox.now - 2 * self._settings.renew_us
        for flights in list(self._flights.values()):
            for flight in list(flights.values()):
                if flight.upstream is not None and flight.sent_us < oldest:
                    self.end(flight)
        for peer, late in self._late_flights().items():
            for flight in late[: max(0, len(late) - self._settings.late_count_max)]:
                self._give_up(flight, peer)
        for attribute, peer in list(self._links):
            table = self._filters.tables.get(attribute)
            if table is None or table.children.get(peer) is not self._links[attribute, peer].child:
                del self._links[attribute, peer]

    # --- invariants ---

    def check(self) -> None:
        """Assert the invariants of flights and links.

        The duplicate window outlives every retransmission: a rendezvous retransmits for 2t.
        """
        assert self._settings.seen_us > 2 * self._settings.renew_us
        self._delivered.check()
        every = [flight for flights in self._flights.values() for flight in flights.values()]
        relayed = [flight for flight in every if not isinstance(flight, RootFlight)]
        assert self._root_count == len(every) - len(relayed)
        assert self.account.size == sum(flight.memory_bytes for flight in relayed)
        self.account.check()
        for key, flights in self._flights.items():
            assert flights
            for on_behalf, flight in flights.items():
                assert (flight.key, flight.on_behalf) == (key, on_behalf)
                flight.check()
        for (_, peer), link in self._links.items():
            assert link.child.contact.peer == peer
            assert link.outstanding >= 0
