"""A live node, as an application uses it.

    async with Node(bootstrap=[...], data="~/.smartpubsub") as node:
        async with node.subscribe("portugal/weather/temp[20,30]") as events:
            async for event in events: ...
        receipt = await node.publish("portugal/weather/temp=24", b"...")

It runs on trio, as libp2p does.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from random import Random
from types import TracebackType

import trio
from trio_typing import TaskStatus

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Joined
from smartpubsub.kademlia.settings import Settings
from smartpubsub.node.arrivals import (
    BUFFER_COUNT_MAX,
    Event,
    Overflow,
    Subscription,
    Wish,
    must_be_open,
)
from smartpubsub.node.calls import ACKNOWLEDGE_S_MAX, Call, Receipt, Wait
from smartpubsub.node.configuration import NodeConfig, host_settings, load_config, usable
from smartpubsub.node.contacts import contact_at, text_of
from smartpubsub.node.errors import NoSubscriptionError, NotPromisedError
from smartpubsub.node.host import Host, HostStoppedError
from smartpubsub.node.identity import Identity, identity_in
from smartpubsub.node.lone_errors import lone_errors
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.node.storage import SqliteStorage, StorageLimits
from smartpubsub.predicates import Predicate, as_predicate
from smartpubsub.protocols.codecs import codecs_of
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import (
    Confirmed,
    Delivery,
    Published,
    Refused,
    Subscribed,
    SubscriptionState,
    Unsubscribed,
)
from smartpubsub.protocols.rpc_wire import RpcLimits
from smartpubsub.seam import Effect
from smartpubsub.sim.stacks import STACKS, StackOptions

JOIN_S_MAX = 30.0
PAYLOAD_BYTES_MAX = RpcLimits().payload_bytes_max // 2
"""So that an event fits into a message with all that goes with it."""
LEAVE_S_MAX = 5.0


class Node:
    """A node of the network."""

    def __init__(self, *, config: NodeConfig | None = None, **options: object) -> None:
        self.config = usable(config or load_config(options, environ={}))
        self.identity: Identity
        self._life: AbstractAsyncContextManager[None]
        self._host: Host | None = None
        self._core: NodeCore
        self._subscriptions: dict[int, Subscription] = {}
        self._unclaimed: dict[int, deque[Event]] = {}
        """What has come for subscriptions of before a restart that nobody has taken yet."""
        self._calls: dict[tuple[str, object], Call] = {}
        self._joined = trio.Event()
        self._handlers: list[tuple[Predicate, Callable[[Event], Awaitable[None]]]] = []
        self._nursery: trio.Nursery

    # --- running ---

    async def __aenter__(self) -> Node:
        """Start, and find the node's place in the network."""
        self._life = self._live()
        await self._life.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Send what is still to be sent, and end."""
        await self._life.__aexit__(kind, error, traceback)

    @asynccontextmanager
    async def _live(self) -> AsyncIterator[None]:
        limits = StorageLimits(stored_bytes_max=self.config.stored_bytes_max)
        with lone_errors(), SqliteStorage(self.config.data, limits) as storage:
            self.identity = identity_in(self.config.data)
            host = Host(
                self.identity,
                self._make_core,
                codecs_of(self.config.protocol),
                storage,
                on_deliver=self._on_deliver,
                settings=host_settings(self.config),
            )
            async with trio.open_nursery() as nursery:
                with trio.CancelScope(shield=True):  # Half a start cannot be undone.
                    await nursery.start(self._run, host)
                self._nursery, self._host = nursery, host
                try:
                    await self._join(host)
                    for predicate, handler in self._handlers:
                        nursery.start_soon(self._handle, predicate, handler)
                    yield
                finally:
                    self._host = None
                    for subscription in self._subscriptions.values():
                        subscription.finish()
                    host.hold(False)
                    with trio.CancelScope(shield=True):  # It takes a limited time.
                        await host.stop()
                    nursery.cancel_scope.cancel()

    async def _run(
        self, host: Host, *, task_status: TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        # Also a node that is cancelled ends its subscriptions and sends what is still to be sent.
        with trio.CancelScope(shield=True):
            await host.run(self.config.listen, task_status=task_status)

    async def _join(self, host: Host) -> None:
        bootstrap = [contact_at(address) for address in self.config.bootstrap]
        await host.do(lambda now: self._core.join(bootstrap, now))
        with trio.move_on_after(JOIN_S_MAX):
            await self._joined.wait()

    def _make_core(self, own: Contact) -> NodeCore:
        # Chance that others could foresee would let them choose when two nodes act as one.
        rng = Random(secrets.randbits(256))
        kademlia = Kademlia(own, Settings(), rng)
        signing = Ed25519Signing(self.identity)
        pubsub = STACKS[self.config.protocol].make(kademlia, signing, rng, self._options)
        self._core = NodeCore(kademlia, pubsub, signing)
        return self._core

    @property
    def _options(self) -> StackOptions:
        return StackOptions(variant=self.config.variant, backups=self.config.backups)

    @property
    def peer_id(self) -> str:
        """Who the node is, as libp2p writes it."""
        self._running()
        return str(self.identity)

    @property
    def addresses(self) -> list[str]:
        """Where the node can be reached, each with its peer id."""
        return [text_of(self._running().own.peer, a) for a in self._running().own.addresses]

    def peers(self) -> list[str]:
        """The peers that the node knows."""
        self._running()
        contacts = self._core.kademlia.table.contacts()
        return [text_of(c.peer, *c.addresses[:1]) for c in contacts]

    # --- subscribing ---

    def subscribe(
        self,
        predicate: Predicate | str,
        *,
        buffer_count_max: int = BUFFER_COUNT_MAX,
        overflow: Overflow = Overflow.BLOCK,
    ) -> Subscription:
        """A subscription, which begins when it is entered as a context manager."""
        return Subscription(
            self,
            as_predicate(predicate),
            buffer_count_max=buffer_count_max,
            overflow=overflow,
            on_room=self._on_room,
        )

    def on(
        self, predicate: Predicate | str
    ) -> Callable[[Callable[[Event], Awaitable[None]]], Callable[[Event], Awaitable[None]]]:
        """Have a function called for every event that matches, one after the other."""

        def decorate(
            handler: Callable[[Event], Awaitable[None]],
        ) -> Callable[[Event], Awaitable[None]]:
            wanted = as_predicate(predicate)
            self._handlers.append((wanted, handler))
            if self._host is not None:
                self._nursery.start_soon(self._handle, wanted, handler)
            return handler

        return decorate

    async def _handle(
        self, predicate: Predicate, handler: Callable[[Event], Awaitable[None]]
    ) -> None:
        async with self.subscribe(predicate) as events:
            async for event in events:
                await handler(event)

    async def open(self, subscription: Subscription) -> None:
        """Begin a subscription, and wait until it is in force.

        One with the same predicate that nobody has taken since the node started again is gone on
        with: nothing that has come for it meanwhile is lost.
        """
        host = self._running()
        call = Call()

        def subscribe(now: int) -> tuple[None, list[Effect]]:
            number = self._left_over(subscription.predicate)
            effects: list[Effect] = []
            if number is None:
                number, effects = self._core.subscribe(subscription.predicate, now)
            if self._core.state_of(number, now) is SubscriptionState.IN_FORCE:
                call.done.set()
            else:
                self._calls["subscribe", number] = call
            subscription.number = number
            self._subscriptions[number] = subscription
            for event in self._unclaimed.pop(number, ()):
                subscription.put(event)
            return None, effects

        await host.call(subscribe)
        try:
            await call.wait(f"the subscription {subscription.predicate}", ACKNOWLEDGE_S_MAX)
        except BaseException:  # Nobody will leave what was never entered.
            await self.end(subscription)
            raise

    def _left_over(self, predicate: Predicate) -> int | None:
        for number, known in self._core.subscriptions.items():
            if number not in self._subscriptions and known.predicate == predicate:
                return number
        return None

    async def end(self, subscription: Subscription) -> None:
        """End a subscription."""
        number = subscription.number
        if number is None or self._subscriptions.pop(number, None) is None:
            return
        subscription.finish()
        self._on_room()
        if self._host is not None:
            await self._unsubscribe(self._host, number)

    async def unsubscribe(self, number: int) -> None:
        """End a subscription by its number, also one that nobody takes events of."""
        host = self._running()
        if number not in self._core.subscriptions:
            raise NoSubscriptionError(f"there is no subscription {number}")
        if number in self._subscriptions:
            await self.end(self._subscriptions[number])
        else:
            await self._unsubscribe(host, number)

    async def _unsubscribe(self, host: Host, number: int) -> None:
        def unsubscribe(now: int) -> list[Effect]:
            is_there = number in self._core.subscriptions
            return self._core.unsubscribe(number, now) if is_there else []

        self._calls.pop(("subscribe", number), None)
        # If another subscription holds the node up, this is done when that is over.
        with trio.move_on_after(LEAVE_S_MAX) as limit, suppress(HostStoppedError):
            limit.shield = True
            await host.do(unsubscribe)
        self._unclaimed.pop(number, None)

    def leave(self, subscription: Subscription) -> None:
        """Take no more events of a subscription without ending it.

        They wait, the last ones of them, until a subscription to the same takes it up.
        """
        number = subscription.number
        if number is not None and self._subscriptions.pop(number, None) is not None:
            self._unclaimed[number] = deque(subscription.leave(), maxlen=BUFFER_COUNT_MAX)
            self._on_room()

    def subscriptions(self) -> list[Wish]:
        """The node's subscriptions, also those of before a restart that nobody has taken yet."""
        now = self._running().clock.now()
        return [
            Wish(
                number,
                wanted.predicate,
                self._core.state_of(number, now),
                number in self._subscriptions,
                len(self._unclaimed.get(number, ())),
            )
            for number, wanted in self._core.subscriptions.items()
        ]

    def state_of(self, subscription: Subscription) -> SubscriptionState:
        """How far a subscription has come."""
        if subscription.number is None:
            return SubscriptionState.PENDING
        return self._core.state_of(subscription.number, self._running().clock.now())

    # --- publishing ---

    async def publish(
        self,
        predicate: Predicate | str,
        payload: bytes = b"",
        *,
        wait: Wait | str = Wait.RENDEZVOUS,
        deadline_s: float = ACKNOWLEDGE_S_MAX,
    ) -> Receipt:
        """Publish an event, and wait until as much is known of it as is wanted."""
        host = self._running()
        event, wait = as_predicate(predicate), Wait(wait)
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise NotPromisedError(
                f"a payload of {len(payload):,} bytes; the most that everybody takes are"
                f" {PAYLOAD_BYTES_MAX:,}: publish a part, or where the rest can be had"
            )
        if wait is Wait.ALL and not STACKS[self.config.protocol].is_reliable(self._options):
            raise NotPromisedError(
                "this protocol does not tell when everybody has an event; wait for less"
            )
        call = Call()

        def publish(now: int) -> tuple[EventId, list[Effect]]:
            id, effects = self._core.publish(event, payload, now, wants_all=wait is Wait.ALL)
            if wait is not Wait.NOTHING:
                self._calls[wait.value, id] = call
            return id, effects

        id = await host.call(publish)
        if wait is not Wait.NOTHING:
            try:
                await call.wait(f"the event {event}", deadline_s)
            finally:
                self._calls.pop((wait.value, id), None)
        return Receipt(str(id), wait)

    # --- what the core tells ---

    def _on_deliver(self, item: object) -> None:
        match item:
            case Delivery(_, numbers):
                event = Event.of(item)
                for number in numbers:
                    if number in self._subscriptions:
                        self._subscriptions[number].put(event)
                    else:
                        waiting = self._unclaimed.setdefault(number, deque(maxlen=BUFFER_COUNT_MAX))
                        waiting.append(event)
                self._on_room()
            case Subscribed(subscription):
                self._acknowledge("subscribe", subscription.number)
            case Unsubscribed(subscription):
                self._acknowledge("unsubscribe", subscription.number)
            case Published(id):
                self._acknowledge(Wait.RENDEZVOUS.value, id)
            case Confirmed(id):
                self._acknowledge(Wait.ALL.value, id)
            case Refused(id, reason):
                self._refuse(id, reason)
            case Joined():
                self._joined.set()

    def _acknowledge(self, what: str, about: object) -> None:
        call = self._calls.pop((what, about), None)
        if call is not None:
            call.done.set()

    def _refuse(self, id: EventId, reason: str) -> None:
        for wait in Wait:
            call = self._calls.pop((wait.value, id), None)
            if call is not None:
                call.refusal = reason
                call.done.set()

    def _on_room(self) -> None:
        """Let the node go on, or stop, as there is room for what comes."""
        if self._host is not None:
            self._host.hold(not all(s.has_room for s in self._subscriptions.values()))

    def _running(self) -> Host:
        must_be_open(self._host is not None)
        assert self._host is not None
        return self._host
