"""How many trees a node enters for the events of one peer.

A rendezvous that is not in the tree of an event's attribute looks up whether it is the closest
node, and asks its neighbours what they know of the attribute. Any node can publish events with ever
new attributes, so the rate of new trees is limited for each peer. Trees beyond the rate wait, and
the node enters several of them together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.runtime.pace import Pace, Rate
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.seam import Peer

TIMER = "new trees"
RATE = Rate(per_second=50, burst=64)
BATCH_US = SECOND // 4
"""The interval at which the node enters trees for a peer beyond its rate."""
WAITING_MAX = 256
"""How many trees may wait for one peer."""


@dataclass(slots=True)
class _PeerTrees:
    """The trees that the node will enter later for events of one peer."""

    pace: Pace
    waiting: dict[str, None] = field(default_factory=dict)


class NewTrees:
    """The trees that the node will enter for events of its peers.

    `begin` enters a tree unless there is no room for it, and returns whether it has.
    """

    def __init__(self, outbox: ScoutOutbox, begin: Callable[[str], bool]) -> None:
        self._outbox = outbox
        self._begin = begin
        self._of_peer: dict[Peer, _PeerTrees] = {}

    def enter_for(self, peer: Peer, attribute: str) -> bool:
        """Enter a tree for an event of a peer, now or later; False if too many trees wait."""
        now = self._outbox.now
        trees = self._of_peer.setdefault(peer, _PeerTrees(Pace(now)))
        if attribute in trees.waiting:
            return True
        if not trees.waiting and not trees.pace.wait_us(RATE, now):
            trees.pace.charge(RATE, now)
            return self._begin(attribute)
        if len(trees.waiting) >= WAITING_MAX:
            self._outbox.reject("new trees")
            return False
        if not trees.waiting:
            self._outbox.set_timer((TIMER, peer), BATCH_US, peer)
        trees.waiting[attribute] = None
        return True

    def on_turn(self, peer: Peer) -> None:
        """Enter the trees that have waited, as many as the rate allows."""
        trees, now = self._of_peer.get(peer), self._outbox.now
        while trees is not None and trees.waiting and not trees.pace.wait_us(RATE, now):
            attribute = next(iter(trees.waiting))
            del trees.waiting[attribute]
            trees.pace.charge(RATE, now)
            self._begin(attribute)
        if trees is not None and trees.waiting:
            self._outbox.set_timer((TIMER, peer), BATCH_US, peer)

    def is_waiting(self, attribute: str) -> bool:
        """Whether the node will enter a tree later."""
        return any(attribute in trees.waiting for trees in self._of_peer.values())

    def tick(self) -> None:
        """Forget peers without waiting trees that have not used up their rate."""
        for peer, trees in list(self._of_peer.items()):
            if not trees.waiting and trees.pace.is_idle(self._outbox.now):
                del self._of_peer[peer]

    def check(self) -> None:
        """Assert the invariants: the limits hold."""
        assert all(len(trees.waiting) <= WAITING_MAX for trees in self._of_peer.values())
