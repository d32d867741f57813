"""What Floodsub and GossipSub share: all events are in one topic, and receivers match them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.protocols.baselines.peers import Peers, PeerSettings
from smartpubsub.protocols.publication import EventId, Signing
from smartpubsub.protocols.pubsub import Inspection, Subscription, SubscriptionState, Tally
from smartpubsub.protocols.runtime.local import LocalSubscriptions
from smartpubsub.protocols.seen import Seen
from smartpubsub.seam import Effect


@dataclass(frozen=True, kw_only=True)
class OneTopicSettings(PeerSettings):
    """Constants for peers and for events; times in microseconds."""

    seen_us: int = 2 * MINUTE
    seen_count_max: int = 100_000


class OneTopic(ABC):
    """The subscriptions of a node, its peers, and the events that it has seen."""

    def __init__(self, settings: OneTopicSettings, kademlia: Kademlia, signing: Signing) -> None:
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

    def inspect(self) -> Inspection:
        """Return the node's state for an observer."""
        return Inspection(self.tally().bounds)

    def check(self) -> None:
        """Assert the invariants of the state."""
        assert all(bound.held <= bound.held_max for bound in self.tally().bounds)

    @abstractmethod
    def tally(self) -> Tally:
        """Return the sizes of bounded collections, and the rejected messages by reason."""

    @property
    def refused(self) -> int:
        """How many messages of other nodes were rejected."""
        return self.refusals.total()
