"""A node's place in the tree of each topic: its parent, its children, heartbeats, the root.

Every parent lies strictly closer to the topic's author than its children, and both sides check
that. So there are no cycles, even while nodes have different views. The root is the author or,
while the author is away, the live node closest to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.keys import Contact, Key
from smartpubsub.kademlia.queries import Found
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.messages import (
    Beat,
    Head,
    JoinElsewhere,
    JoinTopic,
    Leave,
    Wait,
    Welcome,
)
from smartpubsub.protocols.pulsarcast.replicas import TopicReplica, TopicReplicas
from smartpubsub.protocols.pulsarcast.store import EventStore
from smartpubsub.protocols.runtime.replication import SilentPeers
from smartpubsub.seam import Peer

REDIRECTS_MAX = 64
CANDIDATES_MAX = 5
"""How many of the peers closest to the author to consider as parent, or to send a new root's
heartbeat to."""
BUSY_TRIES_MAX = 4
"""How many more joins to send to a candidate that does not answer but sends other messages."""
WAITS_MAX = 10
"""How often a candidate may ask this node to wait, each time for two `join_us`."""
SILENT_BEATS_MAX = 4
"""A node drops a child that is silent for this many heartbeats; if it is up, it joins again."""
LATE_BEATS_MAX = 12
"""The same for a child that sends other messages, and is only late with its heartbeats."""


class PlaceState(Enum):
    """How far a node has come with its place in a tree."""

    OUTSIDE = "outside"
    """It has no place; it may be looking for a candidate parent."""
    JOINING = "joining"
    """It has asked a candidate to be its parent."""
    CHILD = "child"
    MOVING = "moving"
    """It has a parent, and has asked another candidate to be its parent."""
    ROOT = "root"
    YIELDING = "yielding"
    """It is root, and has asked a candidate closer to the author to be its parent."""


TRANSITIONS: dict[tuple[PlaceState, str], PlaceState] = {
    (PlaceState.OUTSIDE, "ask candidate"): PlaceState.JOINING,
    (PlaceState.OUTSIDE, "no closer peer"): PlaceState.ROOT,
    (PlaceState.JOINING, "welcome"): PlaceState.CHILD,
    (PlaceState.JOINING, "candidate redirects"): PlaceState.OUTSIDE,
    (PlaceState.JOINING, "candidate silent"): PlaceState.OUTSIDE,
    (PlaceState.CHILD, "ask candidate"): PlaceState.MOVING,
    (PlaceState.CHILD, "parent lost"): PlaceState.OUTSIDE,
    (PlaceState.MOVING, "welcome"): PlaceState.CHILD,
    (PlaceState.MOVING, "candidate redirects"): PlaceState.CHILD,
    (PlaceState.MOVING, "candidate silent"): PlaceState.CHILD,
    (PlaceState.MOVING, "parent lost"): PlaceState.JOINING,
    (PlaceState.ROOT, "ask candidate"): PlaceState.YIELDING,
    (PlaceState.YIELDING, "welcome"): PlaceState.CHILD,
    (PlaceState.YIELDING, "candidate redirects"): PlaceState.ROOT,
    (PlaceState.YIELDING, "candidate silent"): PlaceState.ROOT,
}

WITH_PARENT = (PlaceState.CHILD, PlaceState.MOVING)
WITH_CANDIDATE = (PlaceState.JOINING, PlaceState.MOVING, PlaceState.YIELDING)
AS_ROOT = (PlaceState.ROOT, PlaceState.YIELDING)


@dataclass(slots=True, eq=False)
class TopicChild:
    """A child in the tree of a topic."""

    contact: Contact
    distance: Key
    below: int
    """How many nodes are below it, as far as it has reported."""
    heard_us: int
    is_moving: bool = False
    """Whether this node has redirected it, and it has not left yet."""


@dataclass(slots=True, eq=False)
class _Place:
    """This node's place in one tree."""

    silent: SilentPeers
    """Peers that did not answer, which this node does not ask to be its parent for a while."""
    state: PlaceState = PlaceState.OUTSIDE
    parent: Contact | None = None
    candidate: Contact | None = None
    """The peer that was asked to be the parent."""
    tries: int = 0
    waits: int = 0
    """How often the candidate has asked this node to wait."""
    join_sent_us: int = 0
    is_seeking: bool = False
    """Whether a lookup for a closer peer is in progress, in any state."""
    redirects: int = 0
    silent_beats: int = 0
    beat_sent_us: int = 0
    """When this node sent the heartbeat that the parent has not answered; 0 if there is none."""
    children: dict[Peer, TopicChild] = field(default_factory=dict)
    waiting: dict[Peer, tuple[Contact, int]] = field(default_factory=dict)
    """Peers that have asked to join while this node had no place, and how many are below each."""
    proved_us: int = 0
    """When a lookup last confirmed that this node is root."""
    stays_until_us: int = 0
    """Until when this node stays although no other component needs the topic."""

    @property
    def is_attached(self) -> bool:
        return self.state in AS_ROOT or self.parent is not None

    def move(self, event: str) -> None:
        self.state = TRANSITIONS[self.state, event]

    def ask(self, contact: Contact) -> None:
        self.move("ask candidate")
        self.candidate, self.tries, self.waits = contact, 0, 0

    def drop_candidate(self, event: str) -> None:
        self.move(event)
        self.candidate = None

    def drop_parent(self) -> None:
        self.move("parent lost")
        self.parent = None

    def is_parent(self, peer: Peer) -> bool:
        return self.parent is not None and self.parent.peer == peer

    def is_candidate(self, peer: Peer) -> bool:
        return self.candidate is not None and self.candidate.peer == peer


class PlaceTaken(NamedTuple):
    """This node has a place: below a peer that reports these heads, or as root."""

    replica: TopicReplica
    heads: tuple[Head, ...]
    peer: Peer | None


class RootActive(NamedTuple):
    """This node is root, and has to invite the topic's keepers."""

    replica: TopicReplica


class Attached(NamedTuple):
    """The place is settled; the parent reports this version as the newest."""

    replica: TopicReplica
    newest: Cid | None


class HeadsHeard(NamedTuple):
    """A neighbour reports its heads."""

    replica: TopicReplica
    heads: tuple[Head, ...]
    peer: Peer


class TopicLeft(NamedTuple):
    """This node has left the tree, and its replica is gone."""

    replica: TopicReplica


MembershipNews: TypeAlias = PlaceTaken | RootActive | Attached | HeadsHeard | TopicLeft


@dataclass(eq=False)
class Membership(Component):
    """Owns this node's places in the trees of its topics.

    `is_needed` returns whether another component needs a topic; then this node stays in its tree.
    """

    _replicas: TopicReplicas
    _store: EventStore
    _is_needed: Callable[[TopicReplica], bool]
    _report: Callable[[MembershipNews], None]
    _places: dict[Cid, _Place] = field(init=False, default_factory=dict)

    def _place(self, replica: TopicReplica) -> _Place:
        place = self._places.get(replica.id)
        if place is None:
            place = _Place(SilentPeers(self._outbox, self._settings.avoid_us))
            if self._replicas.is_current(replica):
                self._places[replica.id] = place
        return place

    # --- for other components ---

    def is_attached(self, replica: TopicReplica) -> bool:
        """Whether this node has a place in the tree."""
        return self._place(replica).is_attached

    def is_root(self, replica: TopicReplica) -> bool:
        """Whether this node is the root of the tree."""
        return self._place(replica).state in AS_ROOT

    def parent(self, replica: TopicReplica) -> Peer | None:
        """Return the parent, or None for a root and for a node without a place."""
        parent = self._place(replica).parent
        return None if parent is None else parent.peer

    def children(self, replica: TopicReplica) -> list[Peer]:
        """Return the children."""
        return list(self._place(replica).children)

    def neighbours(self, replica: TopicReplica) -> Iterator[Peer]:
        """Iterate over the parent and the children."""
        place = self._place(replica)
        if place.parent is not None:
            yield place.parent.peer
        yield from place.children

    def is_neighbour(self, replica: TopicReplica, peer: Peer) -> bool:
        """Whether a peer is the parent or a child."""
        place = self._place(replica)
        return place.is_parent(peer) or peer in place.children

    def has_asked(self, replica: TopicReplica, peer: Peer) -> bool:
        """Whether a peer is the parent, or a candidate that may have been given up since."""
        place = self._place(replica)
        return place.is_parent(peer) or place.is_candidate(peer) or peer in place.silent

    def stay(self, replica: TopicReplica, duration_us: int) -> None:
        """Stay in the tree for some time at least."""
        place = self._place(replica)
        place.stays_until_us = max(place.stays_until_us, self._outbox.now + duration_us)

    # --- finding a place ---

    def attach(self, replica: TopicReplica) -> None:
        """Find a place in the tree, unless this node has one or is looking for one."""
        place = self._place(replica)
        if place.state is not PlaceState.OUTSIDE or place.is_seeking:
            return
        if not self._overlay.is_ready or not self._replicas.is_current(replica):
            return  # When the overlay is ready, the protocol attaches all topics.
        if replica.is_own:
            self._become_root(replica, place)
            return
        closer = self._closer_known(replica, place)
        if closer is not None:
            self._ask(replica, place, closer)
        elif not replica.log.is_settled or not self._knows_others():
            self._seek(replica, place)
        else:
            # A node that has lost its parent and knows no closer peer is root at once. A lookup may
            # find a closer peer, but has to wait until it is sure that the lost parent is gone.
            self._become_root(replica, place)

    def _closer_known(self, replica: TopicReplica, place: _Place) -> Contact | None:
        known = self._overlay.closest_known(replica.topic.author, CANDIDATES_MAX)
        may_be = [c for c in known if self._may_be_parent(replica, place, c)]
        return next(iter(self._by_blame(may_be)), None)

    def _knows_others(self) -> bool:
        return bool(self._overlay.closest_known(self._own, 1))

    def _may_be_parent(self, replica: TopicReplica, place: _Place, contact: Contact) -> bool:
        is_closer = contact.key ^ replica.target < replica.own_distance
        return is_closer and not place.silent.is_suspected(contact.peer)

    def _seek(self, replica: TopicReplica, place: _Place) -> None:
        place.is_seeking = True
        self._overlay.find_closest(replica.topic.author, partial(self._on_found, replica, place))

    def _on_found(self, replica: TopicReplica, place: _Place, found: Found) -> None:
        place.is_seeking = False
        if not self._replicas.is_current(replica) or place.candidate is not None:
            return
        if place.parent is not None:
            return
        closer = [c for c in found.closest if self._may_be_parent(replica, place, c)]
        if closer:
            self._ask(replica, place, self._by_blame(closer)[0])
        elif self._overlay.is_cut_off(found):
            self._outbox.set_timer(("attach", replica.id), self._settings.join_us)
        elif place.state is PlaceState.OUTSIDE:
            self._become_root(replica, place)

    def avoid_parent(self, replica: TopicReplica) -> None:
        """Ask another peer to be the parent if the current one has much more blame."""
        place, now = self._place(replica), self._outbox.now
        if place.state is not PlaceState.CHILD or place.parent is None:
            return
        other = self._closer_known(replica, place)
        if other is not None and self._overlay.blame.is_avoided(place.parent.peer, now, other.peer):
            self._ask(replica, place, other)

    def _ask(self, replica: TopicReplica, place: _Place, contact: Contact) -> None:
        place.ask(contact)
        self._send_join(replica, place)

    def _send_join(self, replica: TopicReplica, place: _Place) -> None:
        assert place.candidate is not None
        message = JoinTopic(replica.id, replica.topic.cid, _below(place))
        self._outbox.queue(place.candidate.peer, message)
        place.join_sent_us = self._outbox.now
        # A candidate that is asked more often than `tries_max` is alive, and busy.
        busy_tries = max(0, place.tries - self._settings.tries_max)
        self._outbox.set_timer(("join", replica.id), self._liveness.timeout_us(1 + busy_tries))

    def on_join_timer(self, replica: TopicReplica) -> None:
        """Ask the candidate again, or give it up."""
        place = self._place(replica)
        if place.candidate is None:
            return
        place.tries += 1
        is_alive = self._liveness.is_heard_since(place.candidate.peer, place.join_sent_us)
        tries_max = self._settings.tries_max + (BUSY_TRIES_MAX if is_alive else 0)
        if place.tries <= tries_max:
            self._send_join(replica, place)
        else:
            self._give_up(replica, place, place.candidate.peer)

    def _give_up(
        self, replica: TopicReplica, place: _Place, candidate: Peer, avoid_us: int | None = None
    ) -> None:
        self._avoid(place, candidate, avoid_us)
        place.drop_candidate("candidate silent")
        self.attach(replica)

    def _avoid(self, place: _Place, peer: Peer, avoid_us: int | None = None) -> None:
        place.silent.forget_old()
        place.silent.suspect(peer, avoid_us)

    # --- answers of candidates and parents ---

    def on_welcome(self, contact: Contact, message: Welcome) -> None:
        """Take the sender as parent, if it was asked."""
        replica = self._replicas.get(message.topic_id)
        if replica is None:
            self._outbox.queue(contact.peer, Leave(message.topic_id))
            return
        place, peer = self._place(replica), contact.peer
        is_asked, is_parent = place.is_candidate(peer), place.is_parent(peer)
        if not (is_parent or is_asked):
            self._note_late_answer(place, peer)
            return
        if contact.key ^ replica.target >= replica.own_distance:
            return
        if is_asked:
            self._liveness.sample(self._outbox.now - place.join_sent_us)
            place.drop_candidate("welcome")
            self._outbox.cancel_timer(("join", replica.id))
        if place.parent is not None and not is_parent:
            self._outbox.queue(place.parent.peer, Leave(replica.id))
        place.parent = contact
        place.silent_beats = place.beat_sent_us = place.redirects = 0
        self._replicas.hear_of_version(replica, message.topic, peer)
        self._report(PlaceTaken(replica, message.heads, peer))
        self._on_attached(replica, place, message.topic)

    def _note_late_answer(self, place: _Place, peer: Peer) -> None:
        """Note the answer of a peer that was given up: it is up, and round trips are longer."""
        if place.silent.heard(peer):
            asked_us = max(place.join_sent_us, place.beat_sent_us)
            self._liveness.sample(self._outbox.now - asked_us)

    def on_wait(self, peer: Peer, message: Wait) -> None:
        """Wait longer for a candidate that is looking for its own place, but not for ever."""
        replica = self._replicas.get(message.topic_id)
        if replica is None or not (place := self._place(replica)).is_candidate(peer):
            return
        place.waits += 1
        wait_us = 2 * self._settings.join_us
        if place.waits > WAITS_MAX:
            self._outbox.cancel_timer(("join", replica.id))
            # Longer than this node has waited, so that other candidates have their turn.
            self._give_up(replica, place, peer, 2 * WAITS_MAX * wait_us)
            return
        place.tries = 0
        self._outbox.set_timer(("join", replica.id), wait_us)

    def on_elsewhere(self, contact: Contact, message: JoinElsewhere) -> None:
        """Follow a redirection of the parent or of the candidate."""
        replica = self._replicas.get(message.topic_id)
        if replica is None:
            return
        place, go_to = self._place(replica), message.go_to
        is_asked, is_parent = place.is_candidate(contact.peer), place.is_parent(contact.peer)
        if not (is_parent or is_asked):
            return
        if is_asked:
            place.drop_candidate("candidate redirects")
            self._outbox.cancel_timer(("join", replica.id))
        place.redirects += 1
        is_lost = place.redirects > REDIRECTS_MAX
        if go_to is not None and place.silent.is_suspected(go_to.peer) and not is_lost:
            # The sender does not know yet that this peer is gone.
            self._outbox.set_timer(("attach", replica.id), self._liveness.timeout_us())
        elif go_to is None or is_lost or not self._may_be_parent(replica, place, go_to):
            place.redirects = 0
            if is_parent:
                place.drop_parent()
            if go_to is None:
                self._avoid(place, contact.peer)
            if not place.is_attached and not place.is_seeking:
                self._seek(replica, place)
        elif place.candidate is None:
            self._ask(replica, place, go_to)

    # --- being root ---

    def _become_root(self, replica: TopicReplica, place: _Place) -> None:
        place.move("no closer peer")
        place.proved_us = self._outbox.now
        self._report(PlaceTaken(replica, (), None))
        self._report(RootActive(replica))
        self._overlay.find_closest(
            replica.topic.author, partial(self._announce_root, replica, place)
        )
        self._on_attached(replica, place, None)

    def _announce_root(self, replica: TopicReplica, place: _Place, found: Found) -> None:
        """Send a heartbeat to peers that may have been root before this closer node."""
        if not self._replicas.is_current(replica) or place.state not in AS_ROOT:
            return
        closer = [c for c in found.closest if self._may_be_parent(replica, place, c)]
        if closer and place.candidate is None:
            self._ask(replica, place, closer[0])
        elif not closer:
            beat = self._beat_of(replica, place, wants_answer=False)
            for contact in found.closest[1 : 1 + CANDIDATES_MAX]:
                self._outbox.queue(contact.peer, beat)

    def _yield_to(self, replica: TopicReplica, place: _Place, contact: Contact) -> None:
        """Ask a peer that is closer to the author than this root to be the parent."""
        if place.state is PlaceState.ROOT and self._may_be_parent(replica, place, contact):
            self._ask(replica, place, contact)

    def _look_for_closer(self, replica: TopicReplica, place: _Place) -> None:
        """Find out whether a peer has appeared that should be root instead of this node."""
        closer = self._closer_known(replica, place)
        if closer is not None and place.candidate is None:
            self._ask(replica, place, closer)
        elif self._is_proof_due(place) and not place.is_seeking:
            self._seek(replica, place)

    def _is_proof_due(self, place: _Place) -> bool:
        return self._outbox.now - place.proved_us >= self._settings.proof_us

    def _on_attached(self, replica: TopicReplica, place: _Place, newest: Cid | None) -> None:
        self._report(Attached(replica, newest))
        waiting, place.waiting = place.waiting, {}
        for contact, below in waiting.values():
            self._admit(replica, place, contact, below)

    # --- children ---

    def on_join(self, contact: Contact, message: JoinTopic) -> None:
        """Admit or redirect a peer that asks to be a child."""
        replica = self._replicas.get(message.topic_id)
        if replica is None:
            self._outbox.queue(contact.peer, Wait(message.topic_id))
            then = partial(self._on_join_found, contact, message)
            self._replicas.with_replica(message.topic, then, contact.peer)
            return
        self._replicas.hear_of_version(replica, message.topic, contact.peer)
        self._admit_or_redirect(replica, contact, message.below)

    def _on_join_found(
        self, contact: Contact, message: JoinTopic, replica: TopicReplica | None
    ) -> None:
        if replica is None or replica.id != message.topic_id:
            self._outbox.queue(contact.peer, JoinElsewhere(message.topic_id, None))
        else:
            self._admit_or_redirect(replica, contact, message.below)

    def _admit_or_redirect(self, replica: TopicReplica, contact: Contact, below: int) -> None:
        place = self._place(replica)
        if contact.key ^ replica.target <= replica.own_distance:
            self._outbox.queue(contact.peer, JoinElsewhere(replica.id, None))
            self._yield_to(replica, place, contact)
        elif place.is_attached:
            self._admit(replica, place, contact, below)
        elif len(place.waiting) < self._settings.waiting_count_max:
            place.waiting[contact.peer] = (contact, below)
            self._outbox.queue(contact.peer, Wait(replica.id))
            self.attach(replica)
        else:
            self._outbox.reject("too many wait")

    def _admit(self, replica: TopicReplica, place: _Place, contact: Contact, below: int) -> None:
        distance = contact.key ^ replica.target
        child = place.children.get(contact.peer)
        if child is not None:
            child.heard_us, child.is_moving = self._outbox.now, False
            self._welcome(replica, contact)
            return
        staying = [child for child in place.children.values() if not child.is_moving]
        if len(staying) >= self._settings.fan_out_max:
            # A child whose heartbeat is overdue may be gone; do not redirect peers to it.
            heard_us = self._outbox.now - self._settings.beat_us * 3 // 2
            closer = [c for c in staying if c.distance < distance and c.heard_us >= heard_us]
            if closer:
                chosen = min(closer, key=lambda child: child.below)
                chosen.below += 1 + below
                self._outbox.queue(contact.peer, JoinElsewhere(replica.id, chosen.contact))
                return
            if len(place.children) >= 2 * self._settings.fan_out_max:
                self._outbox.queue(contact.peer, Wait(replica.id))  # Until some have moved.
                return
            # The newcomer is closer than all children, so it replaces the farthest of them.
            farthest = max(staying, key=lambda child: child.distance)
            farthest.is_moving = True
            below += 1 + farthest.below
            self._outbox.queue(farthest.contact.peer, JoinElsewhere(replica.id, contact))
        place.children[contact.peer] = TopicChild(contact, distance, below, self._outbox.now)
        self._welcome(replica, contact)

    def _welcome(self, replica: TopicReplica, contact: Contact) -> None:
        heads = replica.log.newest_heads(self._settings.names_max)
        self._outbox.queue(contact.peer, Welcome(replica.id, replica.topic.cid, heads))

    def on_leave(self, peer: Peer, message: Leave) -> None:
        """Drop a child that has left."""
        replica = self._replicas.get(message.topic_id)
        if replica is not None:
            place = self._place(replica)
            place.children.pop(peer, None)
            place.waiting.pop(peer, None)
            self.leave_if_unneeded(replica)

    # --- heartbeats ---

    def beat(self, replica: TopicReplica) -> None:
        """Drop silent children, send the parent a heartbeat, and check whether this node is root.

        Leave the tree if this node is not needed in it.
        """
        place = self._place(replica)
        self._drop_silent_children(place)
        if self.leave_if_unneeded(replica):
            return
        if not place.silent_beats:
            self._probe(replica, place)
        if place.state in AS_ROOT and not replica.is_own:
            self._look_for_closer(replica, place)
        if place.state in AS_ROOT and self._is_proof_due(place):
            place.proved_us = self._outbox.now
            self._report(RootActive(replica))
        self.attach(replica)

    def _drop_silent_children(self, place: _Place) -> None:
        silent_us = self._outbox.now - SILENT_BEATS_MAX * self._settings.beat_us
        late_us = self._outbox.now - LATE_BEATS_MAX * self._settings.beat_us
        for peer, child in list(place.children.items()):
            is_alive = self._liveness.is_heard_since(peer, silent_us) and child.heard_us >= late_us
            if child.heard_us < silent_us and not is_alive:
                del place.children[peer]

    def _probe(self, replica: TopicReplica, place: _Place) -> None:
        """Send the parent a heartbeat that it has to answer, or give it up after some of them."""
        if place.parent is None:
            return
        place.silent_beats += 1
        if place.silent_beats > self._settings.tries_max + 1:
            self._avoid(place, place.parent.peer)
            place.drop_parent()
            place.silent_beats = 0
            return
        # An answer may be to an earlier heartbeat. Measuring from the last one underestimates the
        # round trip; measuring from the first would let longer timeouts cause longer timeouts.
        place.beat_sent_us = self._outbox.now
        self._outbox.queue(place.parent.peer, self._beat_of(replica, place, wants_answer=True))
        self._outbox.set_timer(("parent", replica.id), self._liveness.timeout_us())

    def on_parent_timer(self, replica: TopicReplica) -> None:
        """Probe the parent again, unless it has sent another message meanwhile."""
        place = self._place(replica)
        if not place.silent_beats or place.parent is None:
            return
        if self._liveness.is_heard_since(place.parent.peer, place.beat_sent_us):
            # The parent is alive and busy; a retransmission would only add to its load.
            place.silent_beats = 0
        else:
            self._probe(replica, place)
            self.attach(replica)

    def on_disconnected(self, peer: Peer) -> None:
        """Probe a parent or ask a candidate again whose connection is lost or cannot be made."""
        for replica in list(self._replicas.by_id.values()):
            place = self._place(replica)
            if place.is_parent(peer) and not place.silent_beats:
                self._probe(replica, place)
            elif place.is_candidate(peer):
                self.on_join_timer(replica)

    def on_departed(self, peer: Peer) -> None:
        """Continue at once without a child, a parent or a candidate that has left."""
        for replica in list(self._replicas.by_id.values()):
            place = self._place(replica)
            place.children.pop(peer, None)
            place.waiting.pop(peer, None)
            if place.is_parent(peer):
                place.drop_parent()
                place.silent_beats = 0
            elif place.is_candidate(peer):
                place.drop_candidate("candidate silent")
            else:
                continue
            self._avoid(place, peer)
            self.attach(replica)

    def _beat_of(self, replica: TopicReplica, place: _Place, *, wants_answer: bool) -> Beat:
        heads = replica.log.newest_tips(self._settings.names_max)
        return Beat(replica.id, replica.topic.cid, heads, _below(place), wants_answer)

    def send_beat(self, replica: TopicReplica, peer: Peer, *, wants_answer: bool) -> None:
        """Send a peer this node's heads, and ask for the peer's heads if wanted."""
        beat = self._beat_of(replica, self._place(replica), wants_answer=wants_answer)
        self._outbox.queue(peer, beat)

    def send_beats(self, replica: TopicReplica) -> None:
        """Send all neighbours this node's heads."""
        beat = self._beat_of(replica, self._place(replica), wants_answer=False)
        for peer in self.neighbours(replica):
            self._outbox.queue(peer, beat)

    def on_beat(self, contact: Contact, message: Beat) -> None:
        """Take a heartbeat, answer it if the sender wants that, and report the heads."""
        replica, peer = self._replicas.get(message.topic_id), contact.peer
        if replica is None:
            if message.wants_answer:  # The sender takes this node for its parent.
                self._outbox.queue(peer, JoinElsewhere(message.topic_id, None))
            return
        self._replicas.hear_of_version(replica, message.topic, peer)
        place = self._place(replica)
        child = place.children.get(peer)
        if place.is_parent(peer):
            if place.beat_sent_us and not message.wants_answer:
                self._liveness.sample(self._outbox.now - place.beat_sent_us)
                self._outbox.cancel_timer(("parent", replica.id))
                place.beat_sent_us = 0
            place.silent_beats = 0
        elif child is not None:
            child.heard_us, child.below = self._outbox.now, message.below
            if message.wants_answer:
                self.send_beat(replica, peer, wants_answer=False)
        elif message.wants_answer:
            self._admit_or_redirect(replica, contact, message.below)
        else:
            place.silent.heard(peer)
            self._yield_to(replica, place, contact)
        self._report(HeadsHeard(replica, message.heads, peer))

    # --- leaving ---

    def leave_if_unneeded(self, replica: TopicReplica) -> bool:
        """Leave a tree that neither this node nor a child needs; return whether it has left.

        The author stays, because only the author can make new versions. A node with children stays
        and forwards events.
        """
        place = self._place(replica)
        stays = replica.is_own or place.stays_until_us > self._outbox.now
        if stays or place.waiting or place.children or self._is_needed(replica):
            return False
        if place.parent is not None:
            self._outbox.queue(place.parent.peer, Leave(replica.id))
        self._store.drop(replica)
        self._places.pop(replica.id, None)
        self._report(TopicLeft(replica))
        return True

    # --- for the protocol ---

    def served(self) -> dict[Peer, None]:
        """Return the children in all trees."""
        replicas = self._replicas.by_id.values()
        return dict.fromkeys(peer for r in replicas for peer in self._place(r).children)

    def child_count_max(self) -> int:
        """Return the largest number of children in one tree."""
        return max((len(place.children) for place in self._places.values()), default=0)

    def check(self) -> None:
        """Assert that each place agrees with its state and with the direction of its tree."""
        assert self._places.keys() <= self._replicas.by_id.keys()
        for id, place in self._places.items():
            replica = self._replicas.by_id[id]
            assert (place.parent is not None) == (place.state in WITH_PARENT)
            assert (place.candidate is not None) == (place.state in WITH_CANDIDATE)
            for above in (place.parent, place.candidate):
                assert above is None or above.key ^ replica.target < replica.own_distance
            for peer, child in place.children.items():
                assert peer == child.contact.peer
                assert child.distance == child.contact.key ^ replica.target
                assert child.distance > replica.own_distance
            assert len(place.children) <= 2 * self._settings.fan_out_max
            assert len(place.waiting) <= self._settings.waiting_count_max
            assert not (place.waiting and place.is_attached)


def _below(place: _Place) -> int:
    return sum(1 + child.below for child in place.children.values())
