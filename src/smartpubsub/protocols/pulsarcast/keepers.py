"""Keepers: the f + 1 nodes closest to a topic, which store its events.

An event counts as published when all keepers have stored it. Keepers are members of the tree like
other nodes, and have all events from the first on, so that later nodes can fetch them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.blame import UNCONFIRMED
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Found
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pubsub import Published
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.dissemination import TopicDissemination
from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.pulsarcast.membership import Membership
from smartpubsub.protocols.pulsarcast.messages import InviteKeeper, KeepEvents, Kept
from smartpubsub.protocols.pulsarcast.replicas import TopicReplica, TopicReplicas
from smartpubsub.protocols.runtime.replication import Closest, SilentPeers
from smartpubsub.seam import Peer

SPARE_KEEPERS = 5
"""How many more answers than keepers a lookup needs before its result is trusted."""
RESENT_AT_ONCE_MAX = 100
"""How many pending events to send at once to new keepers."""
CONFIRM_TRIES = 3
"""A keeper that is up is left out after this many transmissions without a confirmation."""
PATIENCE = 4
"""How many times longer to wait for a keeper that confirms others, or that no node can replace."""
BLAME_LEVEL_MAX = 7
"""The time for which a keeper is left out doubles with each point of blame, up to this many."""


@dataclass(slots=True, eq=False)
class _KeepAsk:
    """When a keeper was asked to store an event, first and last."""

    first_us: int
    last_us: int


@dataclass(slots=True, eq=False)
class _PendingEvent:
    """An event that not all keepers have stored yet."""

    event: TopicEvent
    since_us: int
    then: Callable[[], None] | None
    """Called when all keepers have stored it; if None, deliver `Published`."""
    stored_by: dict[Peer, int] = field(default_factory=dict)
    """When each node has stored it, as far as this node knows."""
    asks: dict[Peer, _KeepAsk] = field(default_factory=dict)
    """By keeper, also those that have been left out since."""


@dataclass(slots=True, eq=False)
class _KeeperSet:
    """The keepers of one topic, as this node knows them."""

    contacts: tuple[Contact, ...] = ()
    copies_min: int = 1
    """How many nodes have to store an event, if fewer keepers than f + 1 are left."""
    kept_us: dict[Peer, int] = field(default_factory=dict)
    """When each of the keepers last confirmed an event."""
    found_us: int = 0
    looked_up_us: int = 0
    """When they were last looked up because some had not answered."""
    is_finding: bool = False
    pending: dict[Cid, _PendingEvent] = field(default_factory=dict)
    timer_is_set: bool = False
    lease_until_us: int | None = None
    """Until when this node is a keeper itself; None if it never was."""


@dataclass(eq=False)
class Keepers(Component):
    """Asks the keepers of topics to store events, and stores events as a keeper.

    `on_keeper` is called when this node becomes a keeper of a topic.
    """

    _replicas: TopicReplicas
    _membership: Membership
    _dissemination: TopicDissemination
    _silent: SilentPeers
    """Peers that could not be reached."""
    _unconfirmed: SilentPeers
    """Peers that were up and did not confirm that they had stored an event."""
    _closest: Closest
    _on_keeper: Callable[[TopicReplica], None]
    _sets: dict[Cid, _KeeperSet] = field(init=False, default_factory=dict)
    _waiting: dict[Cid, list[Callable[[], None]]] = field(init=False, default_factory=dict)
    """By topic: callbacks for the end of the lookup of its keepers."""

    def _set(self, replica: TopicReplica) -> _KeeperSet:
        keepers = self._sets.get(replica.id)
        if keepers is None:
            keepers = _KeeperSet()
            if self._replicas.is_current(replica):
                self._sets[replica.id] = keepers
        return keepers

    # --- for other components ---

    def peers(self, replica: TopicReplica) -> list[Peer]:
        """Return the keepers that this node knows, which may include itself."""
        return [contact.peer for contact in self._set(replica).contacts]

    def may_confirm(self, replica: TopicReplica, peer: Peer) -> bool:
        """Whether a peer is a keeper, or was left out because it had not confirmed events."""
        return peer in self._unconfirmed or peer in self.peers(replica)

    def is_keeper(self, id: Cid) -> bool:
        """Whether this node is a keeper of a topic."""
        until_us = self._sets.get(id, _KeeperSet()).lease_until_us
        return until_us is not None and until_us > self._outbox.now

    def is_needed(self, replica: TopicReplica) -> bool:
        """Whether this node is a keeper of a topic, or has pending events in it."""
        return self.is_keeper(replica.id) or bool(self._set(replica).pending)

    def pending_count(self, replica: TopicReplica) -> int:
        """Return how many events not all keepers have stored yet."""
        return len(self._set(replica).pending)

    def is_pending(self, replica: TopicReplica, cid: Cid) -> bool:
        """Whether not all keepers have stored an event yet."""
        return cid in self._set(replica).pending

    # --- finding the keepers ---

    def find(self, replica: TopicReplica) -> None:
        """Look up the keepers of a topic, and invite them if this node is root."""
        keepers = self._set(replica)
        if keepers.is_finding or not self._overlay.is_ready:
            return
        keepers.is_finding = True
        count = self._settings.keepers + SPARE_KEEPERS
        self._overlay.find_closest(replica.id, partial(self._on_found, replica, keepers), count)

    def when_found(self, replica: TopicReplica, then: Callable[[], None]) -> None:
        """Call `then` when the keepers are known, or the lookup for them has ended."""
        if self._is_fresh(self._set(replica)):
            then()
            return
        self._waiting.setdefault(replica.id, []).append(then)
        self.find(replica)

    def _is_fresh(self, keepers: _KeeperSet) -> bool:
        age_us = self._outbox.now - keepers.found_us
        is_trusted = len(self._closest_trusted(keepers.contacts)) == len(keepers.contacts)
        return bool(keepers.contacts) and is_trusted and age_us < self._settings.keepers_us

    def _closest_trusted(self, contacts: Sequence[Contact]) -> tuple[Contact, ...]:
        """The first f + 1 contacts without those that were left out."""
        is_out = self._unconfirmed.is_suspected
        trusted = [contact for contact in contacts if not is_out(contact.peer)]
        return tuple(trusted[: self._settings.keepers])

    def _choose(self, keepers: _KeeperSet, candidates: Sequence[Contact]) -> None:
        """Take the first f + 1 nodes as keepers, without those that were left out.

        Fewer than f + 1 copies are enough only if f nodes at most were left out. If more were, not
        all of them lie: they are slow, or refuse the event.
        """
        keepers.contacts = self._closest_trusted(candidates)
        count = self._settings.keepers
        keepers.copies_min = min(count, len(candidates) - (count - 1))
        peers = {contact.peer for contact in keepers.contacts}
        keepers.kept_us = {peer: us for peer, us in keepers.kept_us.items() if peer in peers}

    def _on_found(self, replica: TopicReplica, keepers: _KeeperSet, found: Found) -> None:
        keepers.is_finding = False
        # A node that is cut off does not acknowledge events that only it has stored.
        if self._replicas.is_current(replica) and not self._overlay.is_cut_off(found):
            self._take_found(replica, keepers, found)
        for then in self._waiting.pop(replica.id, []):
            then()

    def _take_found(self, replica: TopicReplica, keepers: _KeeperSet, found: Found) -> None:
        self._choose(keepers, found.closest)
        keepers.found_us = self._outbox.now
        for contact in keepers.contacts:
            if contact.peer == self._own:
                self._become_keeper(replica)
            elif self._membership.is_root(replica):
                self._outbox.queue(contact.peer, InviteKeeper(replica.id, replica.topic.cid))
        self._send_pending(replica, keepers)

    # --- storing events at keepers ---

    def publish(
        self, replica: TopicReplica, event: TopicEvent, then: Callable[[], None] | None = None
    ) -> None:
        """Send an event of this node to the keepers; then deliver `Published` or call `then`."""
        keepers = self._set(replica)
        pending = keepers.pending[event.cid] = _PendingEvent(event, self._outbox.now, then)
        if self._is_fresh(keepers):
            self._send(replica, keepers, pending)
        else:
            self.find(replica)
        self._set_timer(replica, keepers)

    def _send_pending(self, replica: TopicReplica, keepers: _KeeperSet) -> None:
        for pending in list(keepers.pending.values())[:RESENT_AT_ONCE_MAX]:
            self._send(replica, keepers, pending)

    def _send(self, replica: TopicReplica, keepers: _KeeperSet, pending: _PendingEvent) -> None:
        for contact in keepers.contacts:
            if contact.peer == self._own:
                pending.stored_by.setdefault(contact.peer, self._outbox.now)
            elif contact.peer not in pending.stored_by:
                self._ask(replica, pending, contact.peer)
        self._settle(keepers, pending)

    def _ask(self, replica: TopicReplica, pending: _PendingEvent, peer: Peer) -> None:
        now = self._outbox.now
        pending.asks.setdefault(peer, _KeepAsk(now, now)).last_us = now
        message = KeepEvents(replica.id, replica.topic.cid, (pending.event.block,))
        self._outbox.queue(peer, message)

    def _settle(self, keepers: _KeeperSet, pending: _PendingEvent) -> None:
        is_owed = any(contact.peer not in pending.stored_by for contact in keepers.contacts)
        if is_owed or not keepers.contacts or len(pending.stored_by) < keepers.copies_min:
            return
        event = pending.event
        if keepers.pending.pop(event.cid, None) is None:
            return
        if pending.then is not None:
            pending.then()
        elif event.id.publisher == self._own:
            self._outbox.deliver(Published(event.id, kept_by=tuple(pending.stored_by)))

    def _set_timer(self, replica: TopicReplica, keepers: _KeeperSet) -> None:
        if not keepers.timer_is_set:
            keepers.timer_is_set = True
            self._outbox.set_timer(("keep", replica.id), self._settings.timeout_us)

    @property
    def _timeout_us(self) -> int:
        return self._liveness.at_least(self._settings.keep_us, 4)

    def on_timer(self, replica: TopicReplica) -> None:
        """Have the overlay verify silent keepers; those that are gone are replaced.

        Send events again that were not confirmed, and leave out keepers that confirm nothing. Look
        up the keepers again if some have not answered for long, and are not only busy.
        """
        keepers = self._set(replica)
        keepers.timer_is_set = False
        if not keepers.pending:
            return
        self._set_timer(replica, keepers)
        for peer in self._silent_keepers(keepers):
            self._overlay.verify(peer)
        for peer in self._others(self.peers(replica)):
            self._ask_again(replica, keepers, peer)
        late_us = self._outbox.now - self._timeout_us
        late = [pending for pending in keepers.pending.values() if pending.since_us <= late_us]
        is_due = keepers.looked_up_us <= late_us
        if late and is_due and not self._are_busy(keepers, late, late_us):
            keepers.looked_up_us = self._outbox.now
            self.find(replica)

    def _ask_again(self, replica: TopicReplica, keepers: _KeeperSet, peer: Peer) -> None:
        """Send a keeper the events again that it has not confirmed, or leave the keeper out."""
        now = self._outbox.now
        owed = [p for p in keepers.pending.values() if peer in p.asks and peer not in p.stored_by]
        if not owed:
            return
        oldest = min(owed, key=lambda pending: pending.asks[peer].first_us)
        first_us = oldest.asks[peer].first_us
        kept_us = keepers.kept_us.get(peer, first_us)
        # One that is not up is verified, and replaced when it is lost.
        if self._overlay.is_heard_since(peer, first_us) and self._is_overdue(
            replica, keepers, peer, oldest
        ):
            self._leave_out_unconfirmed(peer)
            return
        again_us = now - self._liveness.at_least(self._settings.timeout_us, 4)
        if kept_us <= again_us:
            for pending in owed[:RESENT_AT_ONCE_MAX]:
                if pending.asks[peer].last_us <= again_us:
                    self._ask(replica, pending, peer)

    def _is_overdue(
        self, replica: TopicReplica, keepers: _KeeperSet, peer: Peer, oldest: _PendingEvent
    ) -> bool:
        """Whether a keeper has had long enough to confirm the oldest event that it owes.

        This node's own link may be full. So one that confirms events has its time from when the
        others have stored this one, and one that is heard may be busy if none confirms any.
        """
        now, first_us = self._outbox.now, oldest.asks[peer].first_us
        confirm_us = self._liveness.at_least(CONFIRM_TRIES * self._settings.timeout_us, 8)
        confirm_us = max(confirm_us, 8 * self._overlay.round_trip_us)
        since_us = now - confirm_us
        confirms = keepers.kept_us.get(peer, since_us) > since_us
        if confirms:
            others = [other for other in self._others(self.peers(replica)) if other != peer]
            stored_us = [oldest.stored_by.get(other, now) for other in others]
            first_us = max([first_us, *stored_us])
        are_all_late = all(us <= first_us for us in keepers.kept_us.values())
        is_busy = are_all_late and self._liveness.is_heard_since(peer, since_us)
        can_wait = confirms or is_busy or not self._has_spare(replica, keepers)
        return first_us <= now - confirm_us * (PATIENCE if can_wait else 1)

    def _silent_keepers(self, keepers: _KeeperSet) -> list[Peer]:
        """The keepers that owe an answer and have sent nothing for a while."""
        since_us = self._outbox.now - self._settings.timeout_us
        late = [pending for pending in keepers.pending.values() if pending.since_us <= since_us]
        return [
            contact.peer
            for contact in keepers.contacts
            if contact.peer != self._own
            and not self._liveness.is_heard_since(contact.peer, since_us)
            and any(contact.peer not in pending.stored_by for pending in late)
        ]

    def _are_busy(self, keepers: _KeeperSet, late: list[_PendingEvent], late_us: int) -> bool:
        """Whether all keepers that owe an answer are up, and have not had very long."""
        since_us = min(pending.since_us for pending in late)
        peers = [contact.peer for contact in keepers.contacts]
        owing = [peer for peer in peers if any(peer not in p.stored_by for p in late)]
        are_alive = all(self._liveness.is_heard_since(peer, late_us) for peer in owing)
        return bool(owing) and are_alive and since_us > late_us - self._timeout_us

    def on_disconnected(self, peer: Peer) -> None:
        """Replace a keeper that cannot be reached, in topics with pending events."""
        self._leave_out(peer, is_gone=False)

    def on_departed(self, peer: Peer) -> None:
        """Replace a keeper that has left, in topics with pending events."""
        self._leave_out(peer, is_gone=True)

    def _affected(self, peer: Peer) -> list[tuple[TopicReplica, _KeeperSet]]:
        """The topics with pending events that a peer is a keeper of."""
        return [
            (replica, keepers)
            for replica in self._replicas.by_id.values()
            if (keepers := self._set(replica)).pending
            and any(contact.peer == peer for contact in keepers.contacts)
        ]

    def _leave_out_unconfirmed(self, peer: Peer) -> None:
        """Replace a keeper that is up and does not confirm events, for a while."""
        blame, now = self._overlay.blame, self._outbox.now
        blame.put(peer, UNCONFIRMED, now)
        level = min(blame.level(peer, now), BLAME_LEVEL_MAX)
        self._unconfirmed.forget_old()
        self._unconfirmed.suspect(peer, self._settings.avoid_us << level)
        for replica, keepers in self._affected(peer):
            for pending in keepers.pending.values():
                pending.asks.pop(peer, None)  # If it is asked once more, its time begins again.
            self._replace(replica, keepers, peer, is_gone=True)

    def _leave_out(self, peer: Peer, *, is_gone: bool) -> None:
        affected = self._affected(peer)
        if not affected:
            return
        self._silent.forget_old()
        self._silent.suspect(peer)
        for replica, keepers in affected:
            self._replace(replica, keepers, peer, is_gone=is_gone)

    def _replace(
        self, replica: TopicReplica, keepers: _KeeperSet, peer: Peer, *, is_gone: bool
    ) -> None:
        """Use the next closest known peers as keepers until a lookup, which takes long, ends.

        If there is no other node, this one is the only keeper, unless it may only be cut off.
        """
        staying = [contact for contact in keepers.contacts if contact.peer != peer]
        others = [contact for contact in self._eligible(replica) if contact not in staying]
        candidates = [*staying, *others]
        if is_gone or any(c.peer != self._own for c in self._closest_trusted(candidates)):
            self._choose(keepers, candidates)
            self._send_pending(replica, keepers)
        self.find(replica)

    def _eligible(self, replica: TopicReplica) -> list[Contact]:
        """The known nodes that are close enough to a topic to become its keepers."""
        return self._closest.closest_nodes(replica.id, self.eligible_count)

    def _has_spare(self, replica: TopicReplica, keepers: _KeeperSet) -> bool:
        """Whether this node knows one that can take the place of a keeper."""
        return any(
            contact not in keepers.contacts and not self._unconfirmed.is_suspected(contact.peer)
            for contact in self._eligible(replica)
        )

    def on_kept(self, peer: Peer, message: Kept) -> None:
        """Note that a keeper has stored events."""
        replica = self._replicas.get(message.topic_id)
        if replica is None:
            return
        keepers = self._set(replica)
        for cid in message.cids:
            pending = keepers.pending.get(cid)
            if pending is not None:
                keepers.kept_us[peer] = self._outbox.now
                pending.stored_by.setdefault(peer, self._outbox.now)
                self._settle(keepers, pending)

    # --- being a keeper ---

    @property
    def eligible_count(self) -> int:
        """How many of the nodes closest to a topic may become its keepers."""
        return 2 * self._settings.keepers - 1 + SPARE_KEEPERS

    def renew_lease(self, replica: TopicReplica) -> None:
        """Remain a keeper for another lease."""
        self._set(replica).lease_until_us = self._outbox.now + self._settings.lease_us

    def _become_keeper(self, replica: TopicReplica) -> None:
        was_keeper = self.is_keeper(replica.id)
        self.renew_lease(replica)
        if not was_keeper:
            self._replicas.store_state(replica)
            self._membership.attach(replica)
            self._on_keeper(replica)

    def on_invite(self, contact: Contact, message: InviteKeeper) -> None:
        """Become a keeper of a topic."""
        self._replicas.with_replica(message.topic, self._on_invited, contact.peer, message.topic_id)

    def _on_invited(self, replica: TopicReplica | None) -> None:
        if replica is not None:
            self._become_keeper(replica)

    def on_keep(self, contact: Contact, message: KeepEvents) -> None:
        """Store the events that a publisher sends, and acknowledge them."""
        then = partial(self._keep, contact.peer, message.blocks)
        size = sum(map(len, message.blocks))
        self._replicas.with_replica(message.topic, then, contact.peer, message.topic_id, size)

    def _keep(self, peer: Peer, blocks: tuple[bytes, ...], replica: TopicReplica | None) -> None:
        if replica is None:
            return
        self._become_keeper(replica)
        events = self._permissions.read_events(blocks)
        stored = [event.cid for event in events if self._has_stored(replica, event, peer)]
        if stored:
            self._outbox.queue(peer, Kept(replica.id, tuple(stored)))

    def _has_stored(self, replica: TopicReplica, event: TopicEvent, peer: Peer) -> bool:
        if event.cid in replica.log:
            return True
        if event.topic not in replica.versions:
            self._replicas.hear_of_version(replica, event.topic, peer)
            return False
        replica.log.set_floor(self._outbox.now - self._settings.skew_us_max)
        return self._dissemination.accept_fetched(replica, event, peer)

    # --- for the protocol ---

    def on_left(self, replica: TopicReplica) -> None:
        """Forget a topic."""
        self._sets.pop(replica.id, None)

    def pending_count_max(self) -> int:
        """Return the largest number of pending events in one topic."""
        return max((len(keepers.pending) for keepers in self._sets.values()), default=0)

    def check(self) -> None:
        """Assert the limits, and that a timer is set while events are pending."""
        assert self._sets.keys() <= self._replicas.by_id.keys()
        for keepers in self._sets.values():
            assert len(keepers.contacts) <= self._settings.keepers
            assert len(keepers.pending) <= self._settings.pending_count_max
            assert all(cid == p.event.cid for cid, p in keepers.pending.items())
            assert keepers.timer_is_set or not keepers.pending
