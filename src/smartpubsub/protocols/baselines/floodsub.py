"""Floodsub: every node sends every event to all its peers, once. The simplest baseline."""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.queries import Joined
from smartpubsub.protocols.baselines.messages import Copy, Rpc
from smartpubsub.protocols.baselines.one_topic import OneTopic, OneTopicSettings
from smartpubsub.protocols.publication import Publication, Signing
from smartpubsub.protocols.pubsub import (
    Bound,
    Published,
    Tally,
)
from smartpubsub.seam import (
    Deliver,
    Disconnected,
    Effect,
    Event,
    Indication,
    Peer,
    Received,
    Send,
    SetTimer,
    Started,
    TimerFired,
)


@dataclass(frozen=True, kw_only=True)
class FloodsubSettings(OneTopicSettings):
    """The constants of Floodsub; times in microseconds."""


class Floodsub(OneTopic):
    """One node's part in Floodsub."""

    def __init__(self, settings: FloodsubSettings, kademlia: Kademlia, signing: Signing) -> None:
        super().__init__(settings, kademlia, signing)
        self.settings = settings

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
            case Indication(Joined()):
                return self.peers.greet(now)
            case Started():
                return [SetTimer(("flood", "greet"), now + self.settings.greet_us)]
            case TimerFired(("flood", "greet")):
                again = SetTimer(("flood", "greet"), now + self.settings.greet_us)
                return [again, *self.peers.greet(now)]
            case Disconnected(peer):
                self.peers.forget(peer)
        return []

    def tally(self) -> Tally:
        """Return the sizes of bounded collections, and the rejected messages by reason."""
        bounds = (
            Bound("peers", len(self.peers), self.settings.peer_count_max),
            Bound("seen events", len(self._seen), self.settings.seen_count_max),
        )
        return Tally(bounds, self.refusals)

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
