"""How many trees the events that one peer sends may begin.

A rendezvous that is not in the tree of an event's attribute looks up whether it is the closest
node, and asks its neighbours what they know of the attribute. Anyone can publish events with ever
new attributes, so the events of a peer begin only so many trees in a second. The others wait, and
several of them begin together.
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
"""How often trees of a peer that is beyond its rate begin."""
WAITING_MAX = 256
"""The trees that wait for one peer."""


@dataclass(slots=True)
class _Wish:
    pace: Pace
    waiting: dict[str, None] = field(default_factory=dict)


class NewTrees:
    """The trees that events of each peer are to begin.

    `begin` has the node enter a tree, unless there is no room for it, and returns whether it has.
    """

    def __init__(self, outbox: ScoutOutbox, begin: Callable[[str], bool]) -> None:
        self._outbox = outbox
        self._begin = begin
        self._wishes: dict[Peer, _Wish] = {}

    def wish_for(self, peer: Peer, attribute: str) -> bool:
        """Enter a tree for an event of a peer, now or later; whether the event may wait for it."""
        now = self._outbox.now
        wish = self._wishes.setdefault(peer, _Wish(Pace(now)))
        if attribute in wish.waiting:
            return True
        if not wish.waiting and not wish.pace.wait_us(RATE, now):
            wish.pace.charge(RATE, now)
            return self._begin(attribute)
        if len(wish.waiting) >= WAITING_MAX:
            self._outbox.reject("new trees")
            return False
        if not wish.waiting:
            self._outbox.set_timer((TIMER, peer), BATCH_US, peer)
        wish.waiting[attribute] = None
        return True

    def on_turn(self, peer: Peer) -> None:
        """Enter the trees that have waited, as many as the rate allows."""
        wish, now = self._wishes.get(peer), self._outbox.now
        while wish is not None and wish.waiting and not wish.pace.wait_us(RATE, now):
            attribute = next(iter(wish.waiting))
            del wish.waiting[attribute]
            wish.pace.charge(RATE, now)
            self._begin(attribute)
        if wish is not None and wish.waiting:
            self._outbox.set_timer((TIMER, peer), BATCH_US, peer)

    def has_wish_for(self, attribute: str) -> bool:
        """Whether a tree is to begin later."""
        return any(attribute in wish.waiting for wish in self._wishes.values())

    def tick(self) -> None:
        """Forget the peers for which nothing waits and that have not used up their rate."""
        for peer, wish in list(self._wishes.items()):
            if not wish.waiting and wish.pace.is_idle(self._outbox.now):
                del self._wishes[peer]

    def check(self) -> None:
        """Assert the invariants: the limits hold."""
        assert all(len(wish.waiting) <= WAITING_MAX for wish in self._wishes.values())
