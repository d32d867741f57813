"""The subscriptions to topics of a live node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from smartpubsub.node.api.arrivals import Subscription
from smartpubsub.node.api.calls import Call
from smartpubsub.node.api.choices import ACKNOWLEDGE_S_MAX
from smartpubsub.node.api.listing import History, SubscriptionInfo
from smartpubsub.node.api.subscribing import Subscribing
from smartpubsub.node.api.topic_events import entry_of
from smartpubsub.node.api.topic_subscription import TopicSubscription
from smartpubsub.node.engine import Engine
from smartpubsub.node.transport.host import HostStoppedError
from smartpubsub.protocols.blocks import Cid, cid_from_text, cid_text
from smartpubsub.protocols.pubsub import Delivery, SubscriptionState
from smartpubsub.protocols.pubsub import Subscription as Wanted
from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.pulsarcast.history import Wanted as WantedHistory
from smartpubsub.protocols.pulsarcast.topics import topic_named_by
from smartpubsub.seam import Effect

ReadHistory = Callable[[Cid, WantedHistory], Awaitable[History]]
MustBeThere = Callable[[Cid], Awaitable[None]]
"""Raises an error if the network does not have a topic."""


class TopicSubscribing:
    """The subscriptions to topics of a node."""

    def __init__(
        self,
        engine: Engine,
        subscribing: Subscribing,
        read_history: ReadHistory,
        must_be_there: MustBeThere,
    ) -> None:
        self._engine = engine
        self._subscribing = subscribing
        self._read_history = read_history
        self._must_be_there = must_be_there
        self._open: dict[int, TopicSubscription] = {}
        engine.on_deliver[Delivery].append(self._deliver)
        engine.on_restart.append(self._restore)

    def _restore(self, now: int) -> list[Effect]:
        """Renew the subscriptions in a restarted core, except those that it has stored."""
        pulsar = self._engine.pulsar
        return [
            effect
            for number, subscription in self._open.items()
            if number not in pulsar.subscriptions.wanted
            for effect in pulsar.subscribe(
                Wanted(number, subscription.predicate), now, is_kept=subscription.is_kept
            )
        ]

    async def open(self, subscription: Subscription) -> None:
        """Begin a subscription, and wait until it is in force and has its history.

        A kept one continues a kept subscription without a reader, if there is one; the events that
        wait come first, and there is no history.
        """
        assert isinstance(subscription, TopicSubscription)
        call = Call()
        await self._must_be_there(subscription.topic)
        left_over: list[int] = []

        def subscribe(now: int) -> tuple[None, list[Effect]]:
            if call.is_over:
                return None, []
            core, pulsar = self._engine.core, self._engine.pulsar
            effects: list[Effect] = []
            if subscription.is_kept and not subscription.ends:
                left_over.extend(self._left_over(subscription.topic)[:1])
            number = left_over[0] if left_over else core.new_number()
            if not left_over:
                wanted = Wanted(number, subscription.predicate)
                effects = pulsar.subscribe(wanted, now, is_kept=subscription.is_kept)
            subscription.number = number
            self._open[number] = subscription
            self._subscribing.register(number, subscription)
            if left_over:  # Its events wait on this node, so no peer has to be reachable.
                call.done.set()
            else:
                self._engine.calls.expect("subscribe", number, call)
            return None, effects

        try:
            with call.limited(f"the subscription {subscription.predicate}", ACKNOWLEDGE_S_MAX):
                await self._engine.host.call(subscribe)
                await call.wait_patiently()
            if subscription.history is not None:
                history = subscription.history
                topic = subscription.topic
                read = History() if left_over else await self._read_history(topic, history)
                subscription.gaps = read.gaps
                subscription.begin_with(read)
        except BaseException:  # The application cannot end a subscription that it has not entered.
            if left_over:
                self._leave(subscription)
            else:
                await self._end(subscription)
            raise

    async def end(self, subscription: Subscription) -> None:
        """End a subscription, or leave it if it is kept."""
        assert isinstance(subscription, TopicSubscription)
        if subscription.ends:
            await self._end(subscription)
        else:
            self._leave(subscription)

    async def take(self, subscription: Subscription, id: str) -> None:
        """Acknowledge an event, and all before it."""
        await self.acknowledge(subscription.number, cid_from_text(id))

    def is_kept(self, number: int) -> bool:
        """Whether a number is that of a kept subscription to a topic."""
        return self._engine.is_running and number in self._engine.pulsar.subscriptions.kept

    def _leave(self, subscription: Subscription) -> bool:
        """Detach the reader of a subscription; return whether it had one."""
        number = subscription.number
        if number is None or self._open.pop(number, None) is None:
            return False
        self._subscribing.unregister(number)
        self._engine.calls.forget("subscribe", number)
        subscription.finish()
        return True

    async def _end(self, subscription: Subscription) -> None:
        if self._leave(subscription):
            assert subscription.number is not None
            await self._unsubscribe(subscription.number)

    async def _unsubscribe(self, number: int) -> None:
        def unsubscribe(now: int) -> list[Effect]:
            pulsar = self._engine.pulsar
            is_there = number in pulsar.subscriptions.wanted
            return pulsar.unsubscribe(number, now) if is_there else []

        await self._engine.have_ended(unsubscribe)

    # --- kept subscriptions ---

    def kept(self) -> list[SubscriptionInfo]:
        """List the kept subscriptions, with and without readers."""
        pulsar, now = self._engine.pulsar, self._engine.host.clock.now()
        subscriptions = pulsar.subscriptions
        return [
            SubscriptionInfo(
                number,
                subscriptions.wanted[number].predicate,
                pulsar.state_of(number, now),
                number in self._open,
                waiting,
                is_kept=number not in self._open or not self._open[number].ends,
                dropped=subscriptions.dropped[number],
            )
            for number, waiting in subscriptions.kept.items()
        ]

    async def unsubscribe(self, number: int) -> bool:
        """End a kept subscription by its number; return whether there was one."""
        if number not in self._engine.pulsar.subscriptions.kept:
            return False
        if number in self._open:
            self._leave(self._open[number])
        await self._unsubscribe(number)
        return True

    def _left_over(self, topic: Cid) -> list[int]:
        pulsar = self._engine.pulsar
        replica = pulsar.replicas.of_version(topic)
        found = []
        for number in pulsar.subscriptions.kept:
            wanted = topic_named_by(pulsar.subscriptions.wanted[number].predicate)
            is_version = replica is not None and pulsar.replicas.of_version(wanted) is replica
            # The meta topic has the same replica, and is another subscription.
            if is_version and replica is not None and replica.id in (wanted, topic):
                is_version = False
            if number not in self._open and (is_version or wanted == topic):
                found.append(number)
        return found

    def next_waiting(
        self, subscription: Subscription, given: Mapping[Cid, None]
    ) -> TopicEvent | None:
        """The next event that waits and that the reader does not have."""
        subscriptions = self._engine.pulsar.subscriptions
        return (
            None if subscription.number is None else subscriptions.next(subscription.number, given)
        )

    def waiting_ids(self, subscription: Subscription) -> set[str]:
        """The content ids of the events that wait."""
        subscriptions = self._engine.pulsar.subscriptions
        number = subscription.number
        return (
            set()
            if number is None
            else {cid_text(cid) for cid in subscriptions.waiting_for(number)}
        )

    def dropped_of(self, subscription: Subscription) -> int:
        """The number of events dropped before a reader took them."""
        number = subscription.number
        return 0 if number is None else self._engine.pulsar.subscriptions.dropped[number]

    def has_had(self, number: int, event: Cid) -> bool:
        """Whether an event waits for a kept subscription, or is another one of its topic."""
        pulsar = self._engine.pulsar
        replica = pulsar.replicas.of_version(
            topic_named_by(pulsar.subscriptions.wanted[number].predicate)
        )
        return replica is not None and event in replica.log.events

    async def acknowledge(self, number: int | None, event: Cid) -> None:
        """Acknowledge an event, and all before it."""
        engine = self._engine
        if number is not None and engine.is_running:
            with suppress(HostStoppedError):
                await engine.host.do(lambda now: engine.pulsar.acknowledge(number, event, now))

    def state_of(self, subscription: Subscription) -> SubscriptionState:
        """Report how far a subscription has come."""
        if subscription.number is None:
            return SubscriptionState.PENDING
        return self._engine.pulsar.state_of(subscription.number, self._engine.host.clock.now())

    def _deliver(self, item: Delivery) -> None:
        wanting = [self._open[number] for number in item.subscriptions if number in self._open]
        if wanting:
            replica = self._engine.pulsar.replicas.of_version(wanting[0].topic)
            event = None if replica is None else replica.log.with_id(item.event.id)
            if event is not None:
                for subscription in wanting:
                    if subscription.take(entry_of(event, item.hops)) is not None:
                        self._engine.dropped_in_memory += 1
