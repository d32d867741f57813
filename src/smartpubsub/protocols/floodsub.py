"""Floodsub: every event to every peer, once.

The baseline that everything can be compared with. A node's peers are those in its routing table,
and those in whose table it is, which say so.
"""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.queries import Joined
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.protocols.local import LocalSubscriptions
from smartpubsub.protocols.publication import Publication, Signing
from smartpubsub.protocols.pubsub import Bound, Inspection, Published, Subscription
from smartpubsub.protocols.rpc import Copy, Rpc
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
class FloodsubSettings:
    """Times are in microseconds."""

    greet_us: int = MINUTE
    """How often peers that are new in the routing table are told that this one is there."""
    seen_us: int = 2 * MINUTE
    seen_count_max: int = 100_000
    peer_count_max: int = 1_000


class Floodsub:
    """One node's share of the flood."""

    def __init__(self, settings: FloodsubSettings, kademlia: Kademlia, signing: Signing) -> None:
        self.settings = settings
        self.refused = 0
        """Events that were not what they pretend to be, and peers that there was no room for."""
        self.peers: dict[Peer, None] = {}
        self._kademlia = kademlia
        self._signing = signing
        self._local = LocalSubscriptions()
        self._seen = Seen(settings.seen_us, settings.seen_count_max)

    def subscribe(self, subscription: Subscription, now: int) -> list[Effect]:
        """Everything comes anyway, so a subscription is in force at once."""
        return self._local.add(subscription)

    def unsubscribe(self, number: int, now: int) -> list[Effect]:
        """Nobody else knows of it, so it has taken effect at once."""
        return self._local.remove(number)

    def publish(self, publication: Publication, now: int) -> list[Effect]:
        """Send an event to all peers; nobody acknowledges anything."""
        self._seen.add(publication.id, now)
        return [
            *self._local.deliver(publication, 0),
            *self._flood(publication, 1, b""),
            Deliver(Published(publication.id)),
        ]

    def handle(self, event: Event, now: int) -> list[Effect]:
        """What to do about an event."""
        match event:
            case Received(peer, Rpc() as rpc):
                return self._on_rpc(peer, rpc, now)
            case Told(Joined()):
                return self._greet()
            case Started():
                return [SetTimer(("flood", "greet"), now + self.settings.greet_us)]
            case TimerFired(("flood", "greet")):
                again = SetTimer(("flood", "greet"), now + self.settings.greet_us)
                return [again, *self._greet()]
            case Disconnected(peer):
                self.peers.pop(peer, None)
        return []

    def inspect(self) -> Inspection:
        """The node's state for an onlooker."""
        return Inspection(
            (
                Bound("peers", len(self.peers), self.settings.peer_count_max),
                Bound("seen events", len(self._seen), self.settings.seen_count_max),
            )
        )

    def _on_rpc(self, peer: Peer, rpc: Rpc, now: int) -> list[Effect]:
        if rpc.subscribe is not None:
            self._on_subscribe(peer, wants=rpc.subscribe)
        effects: list[Effect] = []
        for event, hops in rpc.publish:
            if event.id in self._seen:
                continue
            if not self._signing.is_signed(event):
                self.refused += 1
                continue
            self._seen.add(event.id, now)
            effects += self._local.deliver(event, hops)
            effects += self._flood(event, hops + 1, peer)
        return effects

    def _on_subscribe(self, peer: Peer, *, wants: bool) -> None:
        if not wants:
            self.peers.pop(peer, None)
        elif len(self.peers) < self.settings.peer_count_max:
            self.peers[peer] = None
        else:
            self.refused += 1

    def _flood(self, event: Publication, hops: int, came_from: Peer) -> list[Effect]:
        rpc = Rpc(publish=(Copy(event, hops),))
        publisher = event.id.publisher
        return [Send(p, rpc) for p in self.peers if p != came_from and p != publisher]

    def _greet(self) -> list[Effect]:
        new = [
            contact.peer
            for contact in self._kademlia.table.contacts()
            if contact.peer not in self.peers
        ]
        for peer in new:
            self._on_subscribe(peer, wants=True)
        return [Send(peer, Rpc(subscribe=True)) for peer in new if peer in self.peers]
