"""GossipSub v1.1: events go round a mesh of few links, and what there is goes round as gossip.

Every node is in the one topic that there is, so none publishes from outside, and what libp2p calls
fanout is not there. Peers are those of `smartpubsub.protocols.peers`, and no others are exchanged.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.queries import Joined
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.baselines.gossip_cache import MessageCache
from smartpubsub.protocols.baselines.gossip_mesh import Mesh
from smartpubsub.protocols.baselines.gossip_scores import Scores
from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.baselines.gossip_wishes import Wishes
from smartpubsub.protocols.baselines.rpc import Control, Copy, Rpc
from smartpubsub.protocols.local import LocalSubscriptions
from smartpubsub.protocols.peers import Peers
from smartpubsub.protocols.publication import EventId, Publication, Signing
from smartpubsub.protocols.pubsub import (
    Bound,
    Inspection,
    Published,
    Subscription,
    SubscriptionState,
    Tally,
)
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

_NOTHING = Control()


class GossipSub:
    """One node's share of the mesh."""

    def __init__(
        self, settings: GossipSettings, kademlia: Kademlia, signing: Signing, rng: Random
    ) -> None:
        self.settings = settings
        self.refusals: Counter[str] = Counter()
        """Events that were not what they pretend to be, and peers that there was no room for."""
        self.peers = Peers(settings, kademlia)
        self.scores = Scores(settings.scores)
        self.mesh = Mesh(settings, self.peers, self.scores, rng)
        self._signing = signing
        self._rng = rng
        self._local = LocalSubscriptions()
        self._seen: Seen[EventId] = Seen(settings.seen_us, settings.seen_count_max)
        self._cache = MessageCache(settings)
        self._wishes = Wishes(settings, self._seen, rng)
        self._heartbeats = 0

    # --- what can be wanted ---

    def subscribe(self, subscription: Subscription, now: int) -> list[Effect]:
        """Everything comes anyway, so a subscription is in force at once."""
        return self._local.add(subscription)

    def unsubscribe(self, number: int, now: int) -> list[Effect]:
        """Nobody else knows of it, so it has taken effect at once."""
        return self._local.remove(number)

    def state_of(self, number: int, now: int) -> SubscriptionState:
        """Always in force."""
        return SubscriptionState.IN_FORCE

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        """Send an event to all peers that are worth it; nobody acknowledges anything."""
        self._seen.add(publication.id, now)
        copy = self._cache.put(Copy(publication, 1), now).copy
        rpc = Rpc(publish=(copy,))
        return [
            *self._local.deliver(publication, 0),
            *[Send(peer, rpc) for peer in self._first_receivers(now)],
            Deliver(Published(publication.id)),
        ]

    def inspect(self) -> Inspection:
        """The node's state for an onlooker."""
        return Inspection(self.tally().bounds)

    def check(self) -> None:
        """Assert the invariants of the state."""
        assert all(bound.held <= bound.held_max for bound in self.tally().bounds)

    def tally(self) -> Tally:
        """How much there is of what has limits, and what was refused."""
        settings = self.settings
        bounds = (
            Bound("peers", len(self.peers), settings.peer_count_max),
            Bound("mesh members", len(self.mesh.members), settings.d_high),
            Bound("backoffs", len(self.mesh.backoffs), settings.peer_count_max),
            Bound("seen events", len(self._seen), settings.seen_count_max),
            Bound("cached events", len(self._cache), settings.history_count_max),
            Bound("wished events", len(self._wishes), settings.wish_count_max),
            Bound("standings", len(self.scores), settings.scores.standing_count_max),
        )
        return Tally(bounds, self.refusals)

    @property
    def refused(self) -> int:
        """How much was not taken from others."""
        return self.refusals.total()

    # --- what happens ---

    def handle(self, event: Event, now: int) -> list[Effect]:
        """What to do about an event."""
        match event:
            case Received(peer, Rpc() as rpc):
                return self._on_rpc(peer, rpc, now)
            case TimerFired(("gossip", "heartbeat")):
                again = SetTimer(("gossip", "heartbeat"), now + self.settings.heartbeat_us)
                return [again, *self._heartbeat(now)]
            case TimerFired(("gossip", "greet")):
                return [self._next_greeting(now), *self.peers.greet(now)]
            case Told(Joined()):
                return self.peers.greet(now)
            case Started():
                # Spread, so that not all nodes have their hearts beat at once.
                first = now + self._rng.randrange(self.settings.heartbeat_us)
                return [SetTimer(("gossip", "heartbeat"), first), self._next_greeting(now)]
            case Disconnected(peer):
                self._forget(peer, now)
        return []

    def _next_greeting(self, now: int) -> SetTimer:
        return SetTimer(("gossip", "greet"), now + self.settings.greet_us)

    def _on_rpc(self, peer: Peer, rpc: Rpc, now: int) -> list[Effect]:
        if not self.scores.is_above(self.settings.scores.graylist_threshold, peer, now):
            return []
        if rpc.subscribe is False:
            self._forget(peer, now)
        # A greeting may have got lost; whoever exchanges gossip wants events too.
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
        if event.id in self._seen:
            self._on_duplicate(peer, event.id, now)
            return []
        if not self._signing.is_signed(event):
            self.refusals["signature"] += 1
            self.scores.sent_invalid(peer, now)
            return []
        self._seen.add(event.id, now)
        self._wishes.granted(event.id)
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
                wanted = self._wishes.offered(peer, control.ihave, now)
                answer = answer._replace(iwant=wanted)
        if control.graft and not self.mesh.on_graft(peer, now):
            answer = answer._replace(prune_s=self.settings.backoff_us // SECOND)
        if control.prune_s is not None:
            self.mesh.on_prune(peer, control.prune_s * SECOND, now)
        if answer != _NOTHING:
            effects.append(Send(peer, Rpc(control=answer)))
        return effects

    def _on_iwant(self, peer: Peer, ids: tuple[EventId, ...]) -> list[Effect]:
        """Each in a message of its own, so that together they are not too long for one."""
        copies = [self._cache.asked_for(id, peer) for id in ids[: self.settings.ihave_length_max]]
        return [Send(peer, Rpc(publish=(copy,))) for copy in copies if copy is not None]

    # --- heartbeat ---

    def _heartbeat(self, now: int) -> list[Effect]:
        self._heartbeats += 1
        thoroughly = self._heartbeats % self.settings.opportunistic_heartbeats == 0
        if thoroughly:
            self.scores.forget(now)
        asked, broken = self._wishes.heartbeat(now)
        for peer in broken:
            self.scores.misbehaved(peer, now)
        grafted, pruned = self.mesh.maintain(now, thoroughly=thoroughly)
        said: dict[Peer, Control] = {peer: Control(graft=True) for peer in grafted}
        backoff_s = self.settings.backoff_us // SECOND
        said |= {peer: Control(prune_s=backoff_s) for peer in pruned}
        for peer, ids in asked.items():
            said[peer] = said.get(peer, _NOTHING)._replace(iwant=ids)
        effects = self._gossip(said, now)
        effects += [Send(peer, Rpc(control=control)) for peer, control in said.items()]
        self._cache.shift()
        return effects

    def _gossip(self, said: dict[Peer, Control], now: int) -> list[Effect]:
        """Tell some peers outside the mesh what there is, with what is said to them anyway."""
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
        told = self._rng.sample(candidates, min(count, len(candidates)))
        rpc = Rpc(control=Control(ihave=ids))
        effects: list[Effect] = []
        for peer in told:
            if peer in said:
                said[peer] = said[peer]._replace(ihave=ids)
            else:
                effects.append(Send(peer, rpc))
        return effects
