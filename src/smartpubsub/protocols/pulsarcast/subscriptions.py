"""This node's subscriptions to topics. Events for a durable one wait in storage until taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.protocols.blocks import Cid, CidError, cid_text
from smartpubsub.protocols.pubsub import (
    Delivery,
    Subscribed,
    Subscription,
    SubscriptionState,
    Unsubscribed,
)
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.events import TopicEvent, predicate_of
from smartpubsub.protocols.pulsarcast.membership import Membership
from smartpubsub.protocols.pulsarcast.replicas import TopicReplica, TopicReplicas
from smartpubsub.protocols.pulsarcast.topics import topic_named_by


@dataclass(slots=True, eq=False)
class _TopicSubscriptions:
    """The subscriptions to one topic or to its meta topic."""

    all: dict[int, Subscription] = field(default_factory=dict)
    confirmed: dict[int, None] = field(default_factory=dict)
    """Those for which `Subscribed` was delivered."""
    of_topic: tuple[int, ...] = ()
    of_meta: tuple[int, ...] = ()

    def index(self, id: Cid) -> None:
        """Sort the numbers into those for the topic and those for its meta topic."""
        name = cid_text(id)
        self.of_meta = tuple(n for n, s in self.all.items() if name in s.predicate.attributes)
        self.of_topic = tuple(n for n in self.all if n not in self.of_meta)


@dataclass(eq=False)
class TopicSubscriptions(Component):
    """Owns this node's subscriptions."""

    _replicas: TopicReplicas
    _membership: Membership
    _wanted: dict[int, Subscription] = field(init=False, default_factory=dict)
    _by_topic: dict[Cid, _TopicSubscriptions] = field(init=False, default_factory=dict)
    _waiting: dict[int, dict[Cid, None]] = field(init=False, default_factory=dict)
    """For each durable subscription the events that were delivered and not taken, in order."""
    dropped: Counter[int] = field(init=False, default_factory=Counter)
    """How many events per subscription were pruned before they were taken."""

    # --- beginning and ending ---

    @property
    def wanted(self) -> Mapping[int, Subscription]:
        """All subscriptions by their numbers."""
        return self._wanted

    def add(self, subscription: Subscription, *, is_kept: bool) -> None:
        """Add a subscription, which `begin` puts in force; a durable one survives a restart."""
        self._wanted[subscription.number] = subscription
        if is_kept:
            self._waiting[subscription.number] = {}
            topic = topic_named_by(subscription.predicate)
            self._persistence.store_kept(subscription.number, topic)

    def begin(self, number: int) -> None:
        """Find the topic of a subscription and this node's place in the tree."""
        subscription = self._wanted.get(number)
        if subscription is None:
            return
        try:
            topic = topic_named_by(subscription.predicate)
        except CidError:
            self._outbox.reject("no topic")
        else:
            self._replicas.with_replica(topic, partial(self._on_replica, subscription))

    def _on_replica(self, subscription: Subscription, replica: TopicReplica | None) -> None:
        number = subscription.number
        if number not in self._wanted:
            return
        if replica is None:
            # The author may be back later.
            self._outbox.set_timer(("subscribe", number), self._settings.request_us_max)
            return
        subscriptions = self._by_topic.setdefault(replica.id, _TopicSubscriptions())
        subscriptions.all[number] = subscription
        subscriptions.index(replica.id)
        self._membership.attach(replica)
        self.confirm(replica)

    def confirm(self, replica: TopicReplica) -> None:
        """Deliver `Subscribed` for subscriptions that have come into force."""
        subscriptions = self._by_topic.get(replica.id)
        if subscriptions is None or not self._membership.is_attached(replica):
            return
        for number, subscription in subscriptions.all.items():
            if number not in subscriptions.confirmed:
                subscriptions.confirmed[number] = None
                self._outbox.deliver(Subscribed(subscription))

    def end(self, number: int) -> None:
        """End a subscription and deliver `Unsubscribed`."""
        subscription = self._wanted.pop(number)
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            self._persistence.forget_kept(number, waiting)
        for id, subscriptions in list(self._by_topic.items()):
            if subscriptions.all.pop(number, None) is not None:
                subscriptions.confirmed.pop(number, None)
                subscriptions.index(id)
                if not subscriptions.all:
                    del self._by_topic[id]
                replica = self._replicas.get(id)
                if replica is not None:
                    self._membership.leave_if_unneeded(replica)
        self._outbox.deliver(Unsubscribed(subscription))

    def state_of(self, number: int) -> SubscriptionState:
        """Return how far a subscription has come."""
        for id, subscriptions in self._by_topic.items():
            replica = self._replicas.get(id) if number in subscriptions.all else None
            if replica is not None and self._membership.is_attached(replica):
                return SubscriptionState.IN_FORCE
        return SubscriptionState.PENDING

    def count(self, replica: TopicReplica) -> int:
        """Return how many subscriptions there are to a topic and its meta topic."""
        subscriptions = self._by_topic.get(replica.id)
        return 0 if subscriptions is None else len(subscriptions.all)

    # --- delivery ---

    def deliver(self, replica: TopicReplica, event: TopicEvent, hops: int) -> None:
        """Deliver an event to the subscriptions that it is for, unless it is too old for them."""
        subscriptions = self._by_topic.get(replica.id)
        if subscriptions is None or event.draft.created_us < replica.log.floor_us:
            return
        is_announcement = event.draft.is_announcement
        numbers = subscriptions.of_meta if is_announcement else subscriptions.of_topic
        if not numbers:
            return
        for number in numbers:
            waiting = self._waiting.get(number)
            if waiting is not None:
                waiting[event.cid] = None
                self._persistence.store_waiting(number, event.cid)
        self._outbox.deliver(Delivery(event.publication, numbers, hops))

    # --- durable subscriptions ---

    def restore(
        self, kept: Iterable[tuple[int, Cid]], waiting: Iterable[tuple[int, Cid]]
    ) -> list[int]:
        """Restore the durable subscriptions; return their numbers."""
        for number, topic in kept:
            predicate = predicate_of(topic)
            self._wanted[number] = Subscription(number, predicate)
            self._waiting[number] = {}
        for number, cid in waiting:
            event = self._event(number, cid)
            if event is not None:
                self._waiting[number][cid] = None
        for number, events in self._waiting.items():
            places = sorted(event.place for cid in events if (event := self._event(number, cid)))
            self._waiting[number] = dict.fromkeys(cid for _, cid in places)
        return [*self._waiting]

    def _event(self, number: int, cid: Cid) -> TopicEvent | None:
        subscription = self._wanted.get(number)
        if subscription is None or number not in self._waiting:
            return None
        replica = self._replicas.of_version(topic_named_by(subscription.predicate))
        return None if replica is None else replica.log.events.get(cid)

    @property
    def kept(self) -> dict[int, int]:
        """The durable subscriptions, and how many events wait for each."""
        return {number: len(waiting) for number, waiting in self._waiting.items()}

    def next(self, number: int, given: Container[Cid]) -> TopicEvent | None:
        """Return the first event that waits for a durable subscription and is not in `given`."""
        for cid in self._waiting.get(number, ()):
            if cid not in given:
                return self._event(number, cid)
        return None

    def waiting_for(self, number: int) -> Iterable[Cid]:
        """Return the events that wait for a durable subscription."""
        return self._waiting.get(number, {}).keys()

    def take(self, number: int, cid: Cid) -> int:
        """Take an event and all that were delivered before it; return how many waited."""
        waiting = self._waiting.get(number, {})
        if cid not in waiting:
            return 0
        taken = []
        for one in waiting:
            taken.append(one)
            if one == cid:
                break
        for one in taken:
            del waiting[one]
        self._persistence.forget_waiting(number, taken)
        return len(taken)

    def on_pruned(self, pruned: Sequence[TopicEvent]) -> None:
        """Drop pruned events that wait for durable subscriptions, and count them."""
        for number, waiting in self._waiting.items():
            lost = [event.cid for event in pruned if event.cid in waiting]
            for cid in lost:
                del waiting[cid]
            if lost:
                self.dropped[number] += len(lost)
                self._persistence.forget_waiting(number, lost)

    def check(self) -> None:
        """Assert that the indexes agree, and that topics with subscriptions have replicas."""
        assert self._waiting.keys() <= self._wanted.keys()
        assert self._by_topic.keys() <= self._replicas.by_id.keys()
        for subscriptions in self._by_topic.values():
            assert subscriptions.all.keys() <= self._wanted.keys()
            assert subscriptions.confirmed.keys() <= subscriptions.all.keys()
            numbers = [*subscriptions.of_topic, *subscriptions.of_meta]
            assert sorted(numbers) == sorted(subscriptions.all)
