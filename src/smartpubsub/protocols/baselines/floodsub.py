"""Floodsub: every node sends every event to all its peers, once. The simplest baseline."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.queries import Joined
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.protocols.baselines.messages import Copy, Rpc
from smartpubsub.protocols.baselines.peers import Peers, PeerSettings
from smartpubsub.protocols.publication import EventId, Publication, Signing
from smartpubsub.protocols.pubsub import (
    Bound,
    Inspection,
    Published,
    Subscription,
    SubscriptionState,
    Tally,
)
from smartpubsub.protocols.runtime.local import LocalSubscriptions
from smartpubsub.protocols.seen import Seen
from smartpubsub.seam import (
    Deliver,
    Disconnected,
    Effect,
    Event,
    Peer,
    Received,
    Send,
    SetTimer,
    Started,
    TimerFired,
    Told,
)


@dataclass(frozen=True, kw_only=True)
class FloodsubSettings(PeerSettings):
    """The constants of Floodsub; times in microseconds."""

    seen_us: int = 2 * MINUTE
    seen_count_max: int = 100_000


class Floodsub:
    """One node's part in Floodsub."""

    def __init__(self, settings: FloodsubSettings, kademlia: Kademlia, signing: Signing) -> None:
        self.settings = settings
        self.refusals: Counter[str] = Counter()
        """Rejected events and peers, counted by reason."""
        self.peers = Peers(settings, kademlia)
        self._signing = signing
        self._local = LocalSubscriptions()
        self._seen: Seen[EventId] = Seen(settings.seen_us, settings.seen_count_max)

    def subscribe(self, subscription: Subscription, now: int) -> list[Effect]:
        """Add a subscription; it is in force at once, because every event reaches this node."""
        return self._local.add(subscription)

    def unsubscribe(self, number: int, now: int) -> list[Effect]:
        """Remove a subscription; this takes effect at once, because no peer knows of it."""
        return self._local.remove(number)

    def state_of(self, number: int, now: int) -> SubscriptionState:
        """Return that the subscription is in force."""
        return SubscriptionState.IN_FORCE

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        """Send an event to all peers; there are no acknowledgements."""
        self._seen.add(publication.id, now)
        return [
            *self._local.deliver(publication, 0),
            *self._flood(publication, 1, b""),
            Deliver(Published(publication.id)),
        ]

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an input and return the effects."""
        match event:
            case Received(peer, Rpc() as rpc):
                return self._on_rpc(peer, rpc, now)
            case Told(Joined()):
                return self.peers.greet(now)
            case Started():
                return [SetTimer(("flood", "greet"), now + self.settings.greet_us)]
            case TimerFired(("flood", "greet")):
                again = SetTimer(("flood", "greet"), now + self.settings.greet_us)
                return [again, *self.peers.greet(now)]
            case Disconnected(peer):
                self.peers.forget(peer)
        return []

    def inspect(self) -> Inspection:
        """Return the node's state for an observer."""
        return Inspection(self.tally().bounds)

    def check(self) -> None:
        """Assert the invariants of the state."""
        assert all(bound.held <= bound.held_max for bound in self.tally().bounds)

    def tally(self) -> Tally:
        """Return how much the node holds of what has limits, and what it has rejected."""
        bounds = (
            Bound("peers", len(self.peers), self.settings.peer_count_max),
            Bound("seen events", len(self._seen), self.settings.seen_count_max),
        )
        return Tally(bounds, self.refusals)

    @property
    def refused(self) -> int:
        """How many messages of other nodes were rejected."""
        return self.refusals.total()

    def _on_rpc(self, peer: Peer, rpc: Rpc, now: int) -> list[Effect]:
        if rpc.subscribe is not None:
            self._on_subscribe(peer, now, wants=rpc.subscribe)
        effects: list[Effect] = []
        for event, hops in rpc.publish:
            if event.id in self._seen:
                continue
            if not self._signing.is_signed(event):
                self.refusals["signature"] += 1
                continue
            self._seen.add(event.id, now)
            effects += self._local.deliver(event, hops)
            effects += self._flood(event, hops + 1, peer)
        return effects

    def _on_subscribe(self, peer: Peer, now: int, *, wants: bool) -> None:
        if not wants:
            self.peers.forget(peer)
        elif not self.peers.heard_from(peer, now):
            self.refusals["peers"] += 1

    def _flood(self, event: Publication, hops: int, came_from: Peer) -> list[Effect]:
        rpc = Rpc(publish=(Copy(event, hops),))
        publisher = event.id.publisher
        return [Send(p, rpc) for p in self.peers if p != came_from and p != publisher]
