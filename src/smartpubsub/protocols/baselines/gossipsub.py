"""GossipSub v1.1: nodes forward events in a mesh of few links, and gossip the ids of recent ones.

Every node is in the only topic, so no node publishes from outside it, and libp2p's fanout does not
exist here. The peers are those of `baselines.peers`; there is no peer exchange.
"""

from __future__ import annotations

from random import Random

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.queries import Joined
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.baselines.gossip_cache import MessageCache
from smartpubsub.protocols.baselines.gossip_iwant import IwantRequests
from smartpubsub.protocols.baselines.gossip_mesh import Mesh
from smartpubsub.protocols.baselines.gossip_scores import Scores
from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.baselines.messages import Control, Copy, Rpc
from smartpubsub.protocols.baselines.one_topic import OneTopic
from smartpubsub.protocols.publication import EventId, Publication, Signing
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

_NOTHING = Control()


class GossipSub(OneTopic):
    """One node's part in GossipSub."""

    def __init__(
        self, settings: GossipSettings, kademlia: Kademlia, signing: Signing, rng: Random
    ) -> None:
        super().__init__(settings, kademlia, signing)
        self.settings = settings
        self.scores = Scores(settings.scores)
        self.mesh = Mesh(settings, self.peers, self.scores, rng)
        self._rng = rng
        self._cache = MessageCache(settings)
        self._iwant = IwantRequests(settings, self._seen, rng)
        self._heartbeats = 0

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        """Send an event to all peers with a sufficient score; there are no acknowledgements."""
        self._seen.add(publication.id, now)
        self._iwant.received(publication.id)  # A peer may have offered it before it existed.
        copy = self._cache.put(Copy(publication, 1), now).copy
        rpc = Rpc(publish=(copy,))
        return [
            *self._local.deliver(publication, 0),
            *[Send(peer, rpc) for peer in self._first_receivers(now)],
            Deliver(Published(publication.id)),
        ]

    def check(self) -> None:
        """Assert the invariants of the state."""
        super().check()
        self._cache.check()
        self._iwant.check()

    def neighbours(self) -> list[Peer]:
        """Return the members of the mesh."""
        return list(self.mesh.members)

    def tally(self) -> Tally:
        """Return the sizes of bounded collections, and the rejected messages by reason."""
        settings = self.settings
        bounds = (
            Bound("peers", len(self.peers), settings.peer_count_max),
            Bound("mesh members", len(self.mesh.members), settings.d_high),
            Bound("backoffs", len(self.mesh.backoffs), settings.peer_count_max),
            Bound("seen events", len(self._seen), settings.seen_count_max),
            Bound("cached events", len(self._cache), settings.history_count_max),
            Bound("requested events", len(self._iwant), settings.iwant_count_max),
            Bound("peer scores", len(self.scores), settings.scores.record_count_max),
        )
        return Tally(bounds, self.refusals)

    # --- inputs ---

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an input and return the effects."""
        match event:
            case Received(peer, Rpc() as rpc):
                return self._on_rpc(peer, rpc, now)
            case TimerFired(("gossip", "heartbeat")):
                again = SetTimer(("gossip", "heartbeat"), now + self.settings.heartbeat_us)
                return [again, *self._heartbeat(now)]
            case TimerFired(("gossip", "greet")):
                return [self._greet_timer(now), *self.peers.greet(now)]
            case Indication(Joined()):
                return self.peers.greet(now)
            case Started():
                # A random time, so that the heartbeats of nodes do not coincide.
                first = now + self._rng.randrange(self.settings.heartbeat_us)
                return [SetTimer(("gossip", "heartbeat"), first), self._greet_timer(now)]
            case Disconnected(peer):
                self._forget(peer, now)
        return []

    def _greet_timer(self, now: int) -> SetTimer:
        return SetTimer(("gossip", "greet"), now + self.settings.greet_us)

    def _on_rpc(self, peer: Peer, rpc: Rpc, now: int) -> list[Effect]:
        if not self.scores.is_above(self.settings.scores.graylist_threshold, peer, now):
            return []
        if rpc.subscribe is False:
            self._forget(peer, now)
        # A subscription may have been lost; a peer that sends control messages wants events too.
        elif (rpc.subscribe or (rpc.control and peer not in self.peers)) and (
            not self.peers.heard_from(peer, now)
        ):
            self.refusals["peers"] += 1
            return []
        effects: list[Effect] = []
        for copy in rpc.publish:
            effects += self._on_event(peer, copy, now)
        if rpc.control is not None:
            effects += self._on_control(peer, rpc.control, now)
        return effects

    def _forget(self, peer: Peer, now: int) -> None:
        self.peers.forget(peer)
        self.mesh.drop(peer, now)

    # --- events ---

    def _on_event(self, peer: Peer, copy: Copy, now: int) -> list[Effect]:
        event, hops = copy
        # Usually the seen ids reach further back than the cache; not after a pause of the node.
        if event.id in self._seen or self._cache.get(event.id) is not None:
            self._on_duplicate(peer, event.id, now)
            return []
        if not self._signing.is_signed(event):
            self.refusals["signature"] += 1
            self.scores.sent_invalid(peer, now)
            return []
        self._seen.add(event.id, now)
        self._iwant.received(event.id)
        self.scores.first_delivery(peer, event.id.publisher, now)
        onward = Copy(event, hops + 1)
        self._cache.put(onward, now).brought_by[peer] = None
        rpc = Rpc(publish=(onward,))
        publisher = event.id.publisher
        return [
            *self._local.deliver(event, hops),
            *[Send(p, rpc) for p in self.mesh.members if p != peer and p != publisher],
        ]

    def _on_duplicate(self, peer: Peer, id: EventId, now: int) -> None:
        if peer not in self.mesh.members:
            return
        cached = self._cache.get(id)
        if cached is None or peer in cached.brought_by:
            return
        cached.brought_by[peer] = None
        if now - cached.at <= self.settings.scores.near_first_us:
            self.scores.later_delivery(peer, now)

    def _first_receivers(self, now: int) -> list[Peer]:
        if not self.settings.flood_publish:
            return list(self.mesh.members)
        threshold = self.settings.scores.publish_threshold
        return [peer for peer in self.peers if self.scores.is_above(threshold, peer, now)]

    # --- control ---

    def _on_control(self, peer: Peer, control: Control, now: int) -> list[Effect]:
        effects: list[Effect] = []
        answer = _NOTHING
        threshold = self.settings.scores.gossip_threshold
        if (control.ihave or control.iwant) and self.scores.is_above(threshold, peer, now):
            effects += self._on_iwant(peer, control.iwant)
            if control.ihave:
                wanted = self._iwant.offered(peer, control.ihave, now)
                answer = answer._replace(iwant=wanted)
        if control.graft and not self.mesh.on_graft(peer, now):
            answer = answer._replace(prune_s=self.settings.backoff_us // SECOND)
        if control.prune_s is not None:
            self.mesh.on_prune(peer, control.prune_s * SECOND, now)
        if answer != _NOTHING:
            effects.append(Send(peer, Rpc(control=answer)))
        return effects

    def _on_iwant(self, peer: Peer, ids: tuple[EventId, ...]) -> list[Effect]:
        """Send each event in a message of its own; together they might exceed the size limit."""
        copies = [self._cache.asked_for(id, peer) for id in ids[: self.settings.ihave_length_max]]
        return [Send(peer, Rpc(publish=(copy,))) for copy in copies if copy is not None]

    # --- heartbeat ---

    def _heartbeat(self, now: int) -> list[Effect]:
        self._heartbeats += 1
        thoroughly = self._heartbeats % self.settings.opportunistic_heartbeats == 0
        if thoroughly:
            self.scores.forget(now)
        asked, broken = self._iwant.heartbeat(now)
        for peer in broken:
            self.scores.misbehaved(peer, now)
        grafted, pruned = self.mesh.maintain(now, thoroughly=thoroughly)
        controls: dict[Peer, Control] = {peer: Control(graft=True) for peer in grafted}
        backoff_s = self.settings.backoff_us // SECOND
        controls |= {peer: Control(prune_s=backoff_s) for peer in pruned}
        for peer, ids in asked.items():
            controls[peer] = controls.get(peer, _NOTHING)._replace(iwant=ids)
        effects = self._gossip(controls, now)
        effects += [Send(peer, Rpc(control=control)) for peer, control in controls.items()]
        self._cache.shift()
        return effects

    def _gossip(self, controls: dict[Peer, Control], now: int) -> list[Effect]:
        """Send the ids of recent events to some peers outside the mesh.

        Ids for a peer that gets a control message anyway are added to that message.
        """
        ids = tuple(self._cache.recent())
        if not ids:
            return []
        settings = self.settings
        if len(ids) > settings.ihave_length_max:
            ids = tuple(self._rng.sample(ids, settings.ihave_length_max))
        threshold = settings.scores.gossip_threshold
        candidates = [
            peer
            for peer in self.peers
            if peer not in self.mesh.members and self.scores.is_above(threshold, peer, now)
        ]
        count = max(settings.d_lazy, int(settings.gossip_factor * len(candidates)))
        chosen = self._rng.sample(candidates, min(count, len(candidates)))
        rpc = Rpc(control=Control(ihave=ids))
        effects: list[Effect] = []
        for peer in chosen:
            if peer in controls:
                controls[peer] = controls[peer]._replace(ihave=ids)
            else:
                effects.append(Send(peer, rpc))
        return effects
