"""Begins and ends the subscriptions of a live node, and hands each of them its events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from smartpubsub.node.api.arrivals import Subscription, must_be_open
from smartpubsub.node.api.calls import Call
from smartpubsub.node.api.choices import ACKNOWLEDGE_S_MAX, BUFFER_COUNT_MAX
from smartpubsub.node.api.events import Event, event_of
from smartpubsub.node.api.listing import SubscriptionInfo
from smartpubsub.node.api.past import time_us
from smartpubsub.node.api.payloads import Serializer
from smartpubsub.node.api.subscription import ReadOptions
from smartpubsub.node.engine import Engine
from smartpubsub.node.errors import NotPromisedError
from smartpubsub.node.storage.kept import Change
from smartpubsub.node.transport.host import HostStoppedError
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import CidError
from smartpubsub.protocols.publication import event_id_from_text
from smartpubsub.protocols.pubsub import Delivery, Subscribed, SubscriptionState, Unsubscribed
from smartpubsub.protocols.pulsarcast.topics import topic_named_by
from smartpubsub.protocols.scoutsubs.replay import CaughtUp, Past
from smartpubsub.seam import Effect, Store

HISTORY_S_MAX = 60.0
"""How long a subscription waits for history."""


class Subscribing:
    """The subscriptions of a node."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._open: dict[int, Subscription] = {}
        """The subscriptions that have a reader, by number."""
        self._unclaimed: dict[int, deque[Event]] = {}
        """The last events of subscriptions that a crash left without a reader or a queue."""
        calls = engine.calls
        engine.journals[Delivery].append(self._queued)
        engine.journals[CaughtUp].append(self._history_ended)
        engine.on_deliver[Delivery].append(self._deliver)
        engine.on_deliver[CaughtUp].append(self._on_caught_up)
        engine.on_deliver[Subscribed].append(
            lambda item: calls.acknowledge("subscribe", item.subscription.number)
        )
        engine.on_deliver[Unsubscribed].append(
            lambda item: calls.acknowledge("unsubscribe", item.subscription.number)
        )
        engine.on_restart.append(self._restore)

    def new(
        self, predicate: Predicate, options: ReadOptions, serializer: Serializer
    ) -> Subscription:
        """Make a subscription, which begins when it is entered as a context manager."""
        return Subscription(
            self,
            predicate,
            buffer_count_max=options.buffer_count_max,
            overflow=options.overflow,
            past=past_of(options.since, options.last),
            keep=options.keep,
            acknowledges=options.acknowledges,
            serializer=serializer,
        )

    async def start(self) -> None:
        """Remove the queues of subscriptions that did not survive the restart."""
        engine = self._engine

        def remove(_now: int) -> list[Effect]:
            return stores(engine.queues.retain([*engine.core.subscriptions]))

        await engine.host.do(remove)

    def _restore(self, _now: int) -> list[Effect]:
        """Interrupt reads of history: the core stores subscriptions, and not these reads."""
        self._engine.calls.interrupt(("recall",))
        return []

    async def open(self, subscription: Subscription) -> None:
        """Begin a subscription, and wait until it is in force.

        Continue one with the same predicate that has no reader, if there is one: a crash of the
        node left it behind, or it was kept. Only a reader that keeps it continues a kept one; any
        other reader would acknowledge events that wait for that one. Waiting events come first.
        """
        host, past = self._engine.host, subscription.past
        self._must_be_possible(subscription.predicate)
        if past is not None:
            _ = self._engine.replay  # Raises an error if the protocol has no history.
        self._engine.must_have_room(len(str(subscription.predicate).encode()))
        call, history = Call(), Call()

        def subscribe(now: int) -> tuple[None, list[Effect]]:
            if call.is_over:
                return None, []
            core = self._engine.core
            number = None if subscription.epoch else self._without_reader(subscription)
            subscription.was_there = number is not None
            effects: list[Effect] = []
            if number is None:
                number, effects = core.subscribe(subscription.predicate, now)
            else:
                effects = core.report_in_force(number, now)
            self._engine.calls.expect("subscribe", number, call)
            effects = [*self._begin(subscription, number, now), *effects]
            if past is not None:
                self._engine.calls.expect("recall", number, history)
                effects += self._engine.replay.recall(number, past, now)
            return None, effects

        try:
            with call.limited(f"the subscription {subscription.predicate}", ACKNOWLEDGE_S_MAX):
                await host.call(subscribe)
                await call.wait_patiently()
            if past is not None:
                with history.limited(f"the history of {subscription.predicate}", HISTORY_S_MAX):
                    await history.done.wait()
        except BaseException:  # The application cannot end a subscription that it has not entered.
            subscription.is_kept = subscription.is_kept and subscription.was_there
            await self.end(subscription)
            raise

    def _must_be_possible(self, predicate: Predicate) -> None:
        if self._engine.spec.has_only_topics:
            try:
                topic_named_by(predicate)
            except CidError:
                raise NotPromisedError(
                    f"this node runs {self._engine.spec.name}, which has topics and no predicates;"
                    f" {predicate} is not the content id of a topic; run the node with --protocol"
                    " scoutsubs to subscribe by content"
                ) from None

    def _begin(self, subscription: Subscription, number: int, now: int) -> list[Effect]:
        """Register a reader, with a queue on disk if its events are to wait there."""
        queues, unclaimed = self._engine.queues, self._unclaimed.pop(number, deque())
        queue, changes = queues.get(number), list[Change]()
        if queue is not None or subscription.waits_on_disk:
            queue, changes = queues.create(
                number, is_kept=subscription.is_kept, epoch=subscription.epoch
            )
            for event in unclaimed:
                changes += queues.append(queue, event.delivery, now)
            changes += queue.expire(now, queues.limits)
            queue.show_all()
            unclaimed.clear()
        self.register(number, subscription)
        subscription.begin(number, queue)
        if subscription.past is not None and unclaimed:
            self._unclaimed[number] = unclaimed  # These events follow the history.
        else:
            for event in unclaimed:
                subscription.put(event)
        return stores(changes)

    def register(self, number: int, subscription: Subscription) -> None:
        """Deliver the events for a number to a subscription."""
        self._open[number] = subscription

    def unregister(self, number: int) -> None:
        """Deliver no more events for a number."""
        self._open.pop(number, None)

    def _without_reader(self, wanted: Subscription) -> int | None:
        for number, known in self._engine.core.subscriptions.items():
            queue = self._engine.queues.get(number)
            is_for_others = queue is not None and (
                bool(queue.epoch) or (queue.is_kept and not wanted.is_kept)
            )
            is_read = number in self._open
            if known.predicate == wanted.predicate and not is_read and not is_for_others:
                return number
        return None

    async def end(self, subscription: Subscription) -> None:
        """End a subscription, or leave it if it is kept."""
        number = subscription.number
        if number is None or self._open.pop(number, None) is None:
            return
        subscription.finish()
        if not subscription.is_kept:
            await self._unsubscribe(number)
            return
        self._engine.calls.forget("subscribe", number)
        self._engine.calls.forget("recall", number)
        queue = subscription.queue
        if queue is not None and queue.has_history:
            await self._engine.have_ended(lambda _now: stores(queue.end_history()))

    async def take(self, subscription: Subscription, id: str) -> None:
        """Remove an event, and all before it, from the queue of a subscription."""
        if subscription.number is not None:
            await self.take_from(subscription.number, id)

    async def take_from(self, number: int, id: str) -> None:
        """Remove an event, and all before it, from the queue of a subscription."""
        queue = self._engine.queues.get(number)
        if queue is not None and self._engine.is_running:
            with suppress(HostStoppedError):
                await self._engine.host.do(lambda now: stores(queue.take(id, now)))

    def has_had(self, number: int, id: str) -> bool:
        """Whether an event waits for a subscription, or was acknowledged a short time ago."""
        queue = self._engine.queues.get(number)
        return queue is not None and queue.has_had(id)

    async def unsubscribe(self, number: int) -> None:
        """End a subscription by its number, whether or not it has a reader."""
        must_be_open(self._engine.is_running)
        if number in self._open:
            self._open.pop(number).finish()
        await self._unsubscribe(number)

    async def _unsubscribe(self, number: int) -> None:
        engine = self._engine

        def unsubscribe(now: int) -> list[Effect]:
            is_there = number in engine.core.subscriptions
            effects = engine.core.unsubscribe(number, now) if is_there else []
            return [*effects, *stores(engine.queues.remove(number))]

        engine.calls.forget("subscribe", number)
        engine.calls.forget("recall", number)
        await engine.have_ended(unsubscribe)
        self._unclaimed.pop(number, None)

    def all(self) -> list[SubscriptionInfo]:
        """List the node's subscriptions, also those without a reader."""
        core, now = self._engine.core, self._engine.host.clock.now()
        return [
            self._info(number, wanted.predicate, core.state_of(number, now))
            for number, wanted in core.subscriptions.items()
        ]

    def _info(
        self, number: int, predicate: Predicate, state: SubscriptionState
    ) -> SubscriptionInfo:
        reader, queue = self._open.get(number), self._engine.queues.get(number)
        waiting = len(self._unclaimed.get(number, ())) if reader is None else reader.waiting
        dropped = 0 if reader is None else reader.dropped
        if queue is not None:
            waiting, dropped = len(queue), queue.dropped
        is_kept = queue is not None and queue.is_kept
        is_taken = reader is not None
        return SubscriptionInfo(number, predicate, state, is_taken, waiting, is_kept, dropped)

    def with_predicate(self, predicate: Predicate) -> list[int]:
        """The numbers of the subscriptions with a predicate."""
        known = self._engine.core.subscriptions.items()
        return [number for number, wanted in known if wanted.predicate == predicate]

    def state_of(self, subscription: Subscription) -> SubscriptionState:
        """Report how far a subscription has come."""
        if subscription.number is None:
            return SubscriptionState.PENDING
        now = self._engine.host.clock.now()
        return self._engine.core.state_of(subscription.number, now)

    def finish(self) -> None:
        """End all subscriptions of readers, because the node stops."""
        for subscription in self._open.values():
            subscription.finish()

    # --- deliveries of the core ---

    def _queued(self, delivery: Delivery, now: int) -> list[Change]:
        """Queue a delivery on disk, in the transaction that the core's own changes are in."""
        changes: list[Change] = []
        for number in delivery.subscriptions:
            reader = self._open.get(number)
            queue = self._engine.queues.get(number) if reader is None else reader.queue
            if queue is not None:
                changes += self._engine.queues.append(queue, delivery, now)
        return changes

    def _history_ended(self, notice: CaughtUp, _now: int) -> list[Change]:
        queue = self._engine.queues.get(notice.number)
        return [] if queue is None else queue.end_history()

    def _on_caught_up(self, notice: CaughtUp) -> None:
        number = notice.number
        if number in self._open:
            self._open[number].caught_up(notice, self._unclaimed.pop(number, ()))
        if notice.problem:
            self._engine.calls.refuse("recall", number, notice.problem)
        self._engine.calls.acknowledge("recall", number)

    def _deliver(self, delivery: Delivery) -> None:
        id, event = str(delivery.event.id), event_of(delivery.event, delivery.hops)
        for number in delivery.subscriptions:
            reader = self._open.get(number)
            queue = self._engine.queues.get(number) if reader is None else reader.queue
            if queue is not None:
                queue.show(id)
                if reader is not None:
                    reader.on_stored(id)
            elif reader is not None:
                dropped = reader.put(event)
                if dropped is not None:
                    self._engine.dropped_in_memory += 1
                    self._engine.tracking.on_drop(dropped.id, number)
            elif number in self._engine.core.subscriptions:
                self._unclaimed.setdefault(number, deque(maxlen=BUFFER_COUNT_MAX)).append(event)


def past_of(since: str | datetime | None, last: int | None) -> Past | None:
    """The history that a subscription begins with, if any."""
    if last is not None:
        return Past(last=last)
    if isinstance(since, datetime):
        return Past(since_us=time_us(since))
    return None if since is None else Past(since=event_id_from_text(since))


def stores(changes: Iterable[Change]) -> list[Effect]:
    """Write changes as effects."""
    return [Store(key, value) for key, value in changes]
