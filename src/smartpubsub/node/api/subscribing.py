"""The subscriptions of a live node: who takes their events, and what waits for nobody yet."""

from __future__ import annotations

from collections import deque

from smartpubsub.node.api.arrivals import (
    BUFFER_COUNT_MAX,
    Event,
    Overflow,
    Subscription,
    Wish,
    must_be_open,
)
from smartpubsub.node.api.calls import ACKNOWLEDGE_S_MAX, Call
from smartpubsub.node.engine import Engine
from smartpubsub.node.errors import NoSubscriptionError, NotPromisedError
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.pubsub import Delivery, Subscribed, SubscriptionState, Unsubscribed
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.protocols.scoutsubs.replay import CaughtUp, Past
from smartpubsub.seam import Effect

HISTORY_S_MAX = 60.0
"""How long it may take until those have answered who keep what was published before."""


class Subscribing:
    """The subscriptions of a node."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._taken: dict[int, Subscription] = {}
        self._unclaimed: dict[int, deque[Event]] = {}
        """What has come for subscriptions of before a restart that nobody has taken yet."""
        engine.on_deliver.append(self._on_deliver)

    def new(
        self,
        predicate: Predicate,
        *,
        buffer_count_max: int,
        overflow: Overflow,
        past: Past | None = None,
    ) -> Subscription:
        """A subscription, which begins when it is entered as a context manager."""
        return Subscription(
            self, predicate, buffer_count_max=buffer_count_max, overflow=overflow, past=past
        )

    async def open(self, subscription: Subscription) -> None:
        """Begin a subscription, and wait until it is in force.

        One with the same predicate that nobody has taken since the node started again is gone on
        with: nothing that has come for it meanwhile is lost.
        """
        host, core, past = self._engine.host, self._engine.core, subscription.past
        if past is not None:
            self._must_keep_history()
        self._engine.must_have_room(len(str(subscription.predicate).encode()))
        call, history = Call(), Call()

        def subscribe(now: int) -> tuple[None, list[Effect]]:
            if call.is_over:  # The node was held up until nobody wanted it any more.
                return None, []
            number = self._left_over(subscription.predicate)
            subscription.was_there = number is not None
            effects: list[Effect] = []
            if number is None:
                number, effects = core.subscribe(subscription.predicate, now)
            if core.state_of(number, now).is_in_force:
                call.done.set()
            else:
                self._engine.calls.expect("subscribe", number, call)
            subscription.number = number
            self._taken[number] = subscription
            if past is None:
                for event in self._unclaimed.pop(number, ()):
                    subscription.put(event)
            else:
                self._engine.calls.expect("recall", number, history)
                effects += self._engine.scouts.recall(number, past, now)
            return None, effects

        try:
            with call.limited(f"the subscription {subscription.predicate}", ACKNOWLEDGE_S_MAX):
                await host.call(subscribe)
                await call.done.wait()
            if past is not None:
                with history.limited(f"the history of {subscription.predicate}", HISTORY_S_MAX):
                    await history.done.wait()
        except BaseException:  # Nobody will leave what was never entered.
            await self.end(subscription)
            raise

    def _must_keep_history(self) -> None:
        engine = self._engine
        if not isinstance(engine.core.pubsub, ScoutSubs) or not engine.is_reliable:
            raise NotPromisedError(
                "this protocol keeps no events for those who subscribe later; subscribe without"
                " since and last, or use scoutsubs in one of its reliable variants"
            )

    def register(self, number: int, subscription: Subscription) -> None:
        """Have what comes for a number go to a subscription that another desk has made."""
        self._taken[number] = subscription

    def unregister(self, number: int) -> None:
        """Nothing more comes for it."""
        self._taken.pop(number, None)
        self.on_room()

    def _left_over(self, predicate: Predicate) -> int | None:
        for number, known in self._engine.core.subscriptions.items():
            if number not in self._taken and known.predicate == predicate:
                return number
        return None

    async def end(self, subscription: Subscription) -> None:
        """End a subscription."""
        number = subscription.number
        if number is None or self._taken.pop(number, None) is None:
            return
        subscription.finish()
        self.on_room()
        await self._unsubscribe(number)

    async def unsubscribe(self, number: int) -> None:
        """End a subscription by its number, also one that nobody takes events of."""
        must_be_open(self._engine.is_running)
        if number not in self._engine.core.subscriptions:
            numbers = ", ".join(map(str, self._engine.core.subscriptions)) or "none"
            raise NoSubscriptionError(f"there is no subscription {number}; there are {numbers}")
        if number in self._taken:
            await self.end(self._taken[number])
        else:
            await self._unsubscribe(number)

    async def _unsubscribe(self, number: int) -> None:
        core = self._engine.core

        def unsubscribe(now: int) -> list[Effect]:
            return core.unsubscribe(number, now) if number in core.subscriptions else []

        self._engine.calls.forget("subscribe", number)
        self._engine.calls.forget("recall", number)
        await self._engine.have_ended(unsubscribe)
        self._unclaimed.pop(number, None)

    def leave(self, subscription: Subscription) -> None:
        """Take no more events of a subscription without ending it.

        They wait, the last ones of them, until a subscription to the same takes it up.
        """
        number = subscription.number
        if number is not None and self._taken.pop(number, None) is not None:
            self._unclaimed[number] = deque(subscription.leave(), maxlen=BUFFER_COUNT_MAX)
            self.on_room()

    def all(self) -> list[Wish]:
        """The node's subscriptions, also those of before a restart that nobody has taken yet."""
        core, now = self._engine.core, self._engine.host.clock.now()
        return [
            Wish(
                number,
                wanted.predicate,
                core.state_of(number, now),
                number in self._taken,
                len(self._unclaimed.get(number, ())),
            )
            for number, wanted in core.subscriptions.items()
        ]

    def state_of(self, subscription: Subscription) -> SubscriptionState:
        """How far a subscription has come."""
        if subscription.number is None:
            return SubscriptionState.PENDING
        now = self._engine.host.clock.now()
        return self._engine.core.state_of(subscription.number, now)

    def on_room(self) -> None:
        """Let the node go on, or stop, as there is room for what comes."""
        if self._engine.is_running:
            self._engine.host.hold(not all(s.has_room for s in self._taken.values()))

    def finish(self) -> None:
        """Nothing more will come for any of them."""
        for subscription in self._taken.values():
            subscription.finish()

    def _on_deliver(self, item: object) -> None:
        match item:
            case Delivery(_, numbers):
                event = Event.of(item)
                for number in numbers:
                    if number in self._taken:
                        self._taken[number].put(event)
                    elif number in self._engine.core.subscriptions:
                        waiting = self._unclaimed.setdefault(number, deque(maxlen=BUFFER_COUNT_MAX))
                        waiting.append(event)
                self.on_room()
            case CaughtUp(number, problem=problem):
                if number in self._taken:
                    self._taken[number].caught_up(item, self._unclaimed.pop(number, ()))
                if problem:
                    self._engine.calls.refuse("recall", number, problem)
                self._engine.calls.acknowledge("recall", number)
            case Subscribed(subscription):
                self._engine.calls.acknowledge("subscribe", subscription.number)
            case Unsubscribed(subscription):
                self._engine.calls.acknowledge("unsubscribe", subscription.number)
