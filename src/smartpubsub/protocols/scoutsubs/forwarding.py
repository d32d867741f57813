"""Events on their way up: every node forwards them towards the rendezvous of their attribute.

The next hop is the parent in the attribute's tree or, for a node that is not in the tree, the known
peer closest to the key. A retransmission says that an event may have been lost, so a node verifies
first that the next hop is up. The rendezvous admits the event (`admission.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from smartpubsub.kademlia.keys import key_of
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.dissemination import Dissemination
from smartpubsub.protocols.scoutsubs.flight import Flight
from smartpubsub.protocols.scoutsubs.membership import Role, TreeMembership
from smartpubsub.protocols.scoutsubs.messages import NO_PEER, Raise
from smartpubsub.protocols.scoutsubs.new_trees import NewTrees
from smartpubsub.protocols.scoutsubs.proximity import Proximity
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.timeouts import ResponseTimes
from smartpubsub.seam import Peer

PROBED_TIMES = 4
"""When a rendezvous or replica is down, a node probes (f + 1) times this many nodes at the key."""


@dataclass(eq=False)
class Forwarding:
    """The events that wait at this node on their way up.

    `_admit` is called with an event that this node is the rendezvous of, and the peer that it came
    from. It returns the next hop if the event goes on to another shard.
    """

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _detector: FailureDetector
    _proximity: Proximity
    _times: ResponseTimes
    _membership: TreeMembership
    _dissemination: Dissemination
    _admit: Callable[[Raise, Peer | None], Peer | None]

    def __post_init__(self) -> None:
        self._held: dict[str, list[tuple[Raise, Peer | None]]] = {}
        """Events that wait until the rendezvous is known."""
        self._doubtful: dict[Peer, list[tuple[Raise, Peer | None]]] = {}
        """Events that wait until it is known whether the next hop is up."""
        self.new_trees = NewTrees(self._outbox, self._begin_tree)

    def __len__(self) -> int:
        return sum(map(len, [*self._held.values(), *self._doubtful.values()]))

    def forward(self, part: Raise, came_from: Peer | None) -> Peer | None:
        """Forward an event towards its rendezvous, or admit it; return the next hop."""
        attribute = part.attribute
        tree, hop = self._membership.trees.get(attribute), None
        if tree is None:
            # A node that only forwards events need not be in the tree.
            hop = self._proximity.closer(attribute)
            if hop is None and not self._enter_tree(attribute, came_from):
                return None
            tree = self._membership.trees.get(attribute)
        elif tree.role is Role.CHILD:
            hop = tree.parent
        if tree is not None and tree.role is Role.ROOT:
            return self._admit(part, came_from)
        if hop is None:
            if self._has_room():
                self._held.setdefault(attribute, []).append((part, came_from))
            return None
        if part.is_retry and not self._detector.was_heard_within(hop.peer, self._times.timeout_us):
            self._verify_hop(hop.peer, part, came_from)
            return hop.peer
        if not self._settings.is_reliable and tree is not None:
            flight = Flight(part.event, attribute, part.hops, None, self._outbox.now)
            self._dissemination.spread(flight, excluded=came_from or NO_PEER)
        self._outbox.queue(hop.peer, part._replace(hops=part.hops + 1))
        return hop.peer

    def _enter_tree(self, attribute: str, came_from: Peer | None) -> bool:
        """Enter the tree of an event, now or later; return whether the event may wait for it."""
        if came_from is None:
            return self._begin_tree(attribute)
        return self.new_trees.enter_for(came_from, attribute)

    def _begin_tree(self, attribute: str) -> bool:
        """Enter the tree of an event; if there is no room, events that wait for it are dropped."""
        if self._membership.join(attribute) is None:
            self._held.pop(attribute, None)
            return False
        return True

    def _verify_hop(self, hop: Peer, part: Raise, came_from: Peer | None) -> None:
        """Probe a next hop that may be down, and send the event to its possible successors.

        Each of them has to find out itself whether the nodes closer to the key are up. Nodes often
        fail together, so a possible successor probes all closer nodes at the same time.
        """
        if self._has_room():
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

    def _has_room(self) -> bool:
        """Whether one more event can wait; the publisher retransmits one that cannot."""
        if len(self) < self._settings.record_count_max:
            return True
        self._outbox.reject("waiting events")
        return False

    def probe_around(self, attribute: str) -> None:
        """Probe the nodes around a key at the same time, as nodes often fail together."""
        count = PROBED_TIMES * (self._settings.backups + 1)
        for contact in self._proximity.closest(attribute.encode(), count):
            self._detector.probe_if_silent(contact.peer)

    def on_heard(self, peer: Peer) -> None:
        """Forward the events that waited until a peer is known to be up or down."""
        for part, came_from in self._doubtful.pop(peer, ()):
            self.forward(part, came_from)

    def release(self, attribute: str) -> None:
        """Forward the events that waited until the role in a tree is known."""
        if self._membership.role(attribute) in (Role.ROOT, Role.CHILD):
            for part, came_from in self._held.pop(attribute, ()):
                self.forward(part, came_from)

    def needs_tree(self, attribute: str) -> bool:
        """Whether events wait for a tree."""
        return attribute in self._held

    def check(self) -> None:
        """Assert the invariants: no empty lists are kept, and the number of events is limited."""
        assert all(self._held.values())
        assert all(self._doubtful.values())
        assert len(self) <= self._settings.record_count_max
        self.new_trees.check()
        waiting = [name for name in self._held if name not in self._membership.trees]
        assert all(map(self.new_trees.is_waiting, waiting)), "events wait for no tree"
