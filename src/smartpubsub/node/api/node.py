"""A live node, as an application uses it.

    async with Node(bootstrap=[...], data="~/.smartpubsub") as node:
        async with node.subscribe("portugal/weather/temp[20,30]") as events:
            async for event in events: ...
        receipt = await node.publish("portugal/weather/temp=24", b"...")

It runs on trio, as libp2p does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from types import TracebackType

import trio

from smartpubsub.node.api.arrivals import (
    BUFFER_COUNT_MAX,
    Event,
    Overflow,
    Subscription,
    SubscriptionInfo,
    must_be_open,
)
from smartpubsub.node.api.calls import ACKNOWLEDGE_S_MAX, Wait
from smartpubsub.node.api.choices import at_least_one, choice
from smartpubsub.node.api.event_records import EventInfo
from smartpubsub.node.api.group import Group
from smartpubsub.node.api.groups import FoundGroup, Groups, KnownGroup
from smartpubsub.node.api.past import wanted_past
from smartpubsub.node.api.publishing import Publishing, as_payload
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.node.api.subscribing import Subscribing
from smartpubsub.node.api.topic import Topic
from smartpubsub.node.api.topic_rules import RulesWanted
from smartpubsub.node.api.topics import KnownTopic, Topics
from smartpubsub.node.config_values import Endpoint
from smartpubsub.node.configuration import NodeConfig, load_config
from smartpubsub.node.control.metrics import NodeMetrics
from smartpubsub.node.control.metrics_server import MetricsServer
from smartpubsub.node.engine import Engine
from smartpubsub.node.errors import LimitError
from smartpubsub.node.identity import peer_text
from smartpubsub.node.transport.contacts import text_of
from smartpubsub.node.transport.containment import Failures
from smartpubsub.predicates import Predicate, as_predicate
from smartpubsub.protocols.blocks import cid_from_text

Handler = Callable[[Event], Awaitable[None]]


class Node:
    """A node of the network."""

    def __init__(self, *, config: NodeConfig | None = None, **options: object) -> None:
        self.config = config or load_config(options, environ={})
        self._engine = self._made_engine()
        self._subscribing = Subscribing(self._engine)
        self._publishing = Publishing(self._engine)
        self._groups = Groups(self._engine, self._subscribing, self._publishing)
        self._topics = Topics(self._engine, self._subscribing, self._publishing)
        self._metrics = NodeMetrics(self._engine)
        self.metrics_at: Endpoint | None = None
        """Where the running node serves metrics; None if it does not."""
        self._life: AbstractAsyncContextManager[None]
        self._nursery: trio.Nursery
        self._handlers: list[tuple[Predicate, Handler]] = []

    def _made_engine(self) -> Engine:
        return Engine(self.config)

    # --- running ---

    async def __aenter__(self) -> Node:
        """Start the node, and join the network."""
        self._life = self._live()
        await self._life.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Send what is queued, and stop."""
        await self._life.__aexit__(kind, error, traceback)

    @asynccontextmanager
    async def _live(self) -> AsyncIterator[None]:
        async with self._engine.running(on_end=self._subscribing.finish) as nursery:
            self._nursery = nursery
            await self._subscribing.start()
            nursery.start_soon(self._publishing.retry)
            if self.config.metrics is not None:
                server = MetricsServer(self.metrics)
                self.metrics_at = await nursery.start(server.serve, self.config.metrics)
            for predicate, handler in self._handlers:
                nursery.start_soon(self._handle, predicate, handler)
            try:
                yield
            finally:
                self.metrics_at = None

    @property
    def peer_id(self) -> str:
        """The node's peer id in libp2p's notation."""
        return peer_text(self._engine.host.own.peer)

    @property
    def addresses(self) -> list[str]:
        """The node's addresses, each with its peer id."""
        own = self._engine.host.own
        return [text_of(own.peer, address) for address in own.addresses]

    def peers(self) -> list[str]:
        """The peers that the node knows."""
        must_be_open(self._engine.is_running)
        contacts = self._engine.core.kademlia.table.contacts()
        return [text_of(c.peer, *c.addresses[:1]) for c in contacts]

    def metrics(self) -> bytes:
        """The node's metrics in Prometheus' text format."""
        must_be_open(self._engine.is_running)
        return self._metrics.text()

    def failures(self) -> Failures:
        """What the node has dropped because handling it raised an exception."""
        must_be_open(self._engine.is_running)
        return self._engine.failures

    # --- subscribing ---

    def subscribe(
        self,
        predicate: Predicate | str,
        *,
        since: str | datetime | None = None,
        last: int | None = None,
        keep: bool = False,
        acknowledges: bool = True,
        buffer_count_max: int = BUFFER_COUNT_MAX,
        overflow: Overflow | str = Overflow.DROP_OLDEST,
    ) -> Subscription:
        """Make a subscription, which begins when it is entered as a context manager.

        With `since` (an event's id, or a time) or `last` (a number) it begins with history, in
        order of time. Each event comes once.

        With `keep` the subscription outlives its block and restarts of the node. Its events wait
        on disk until they are acknowledged, and the next `subscribe` with the same predicate
        continues it; `unsubscribe` ends it. Asking for the next event acknowledges the one before
        it, and so does leaving the block without an error; with `acknowledges=False` only
        `Subscription.taken` does.

        Otherwise up to `buffer_count_max` events wait in memory, and `overflow` says what happens
        beyond that.
        """
        return self._subscribing.new(
            self._read(predicate),
            buffer_count_max=at_least_one(buffer_count_max, "buffer_count_max"),
            overflow=choice(Overflow, overflow, "overflow"),
            past=wanted_past(since, last),
            keep=keep,
            acknowledges=acknowledges,
        )

    def on(self, predicate: Predicate | str) -> Callable[[Handler], Handler]:
        """Call a function for every event that matches, one at a time."""

        def decorate(handler: Handler) -> Handler:
            wanted = self._read(predicate)
            self._handlers.append((wanted, handler))
            if self._engine.is_running:
                self._nursery.start_soon(self._handle, wanted, handler)
            return handler

        return decorate

    async def _handle(self, predicate: Predicate, handler: Handler) -> None:
        async with self.subscribe(predicate) as events:
            async for event in events:
                await handler(event)

    async def unsubscribe(self, number: int) -> None:
        """End a subscription by its number, whether or not it has a reader."""
        if not await self._topics.subscribing.unsubscribe(number):
            await self._subscribing.unsubscribe(number)

    async def take(self, number: int, event_id: str) -> None:
        """Acknowledge an event of a kept subscription, and all before it."""
        if self._topics.subscribing.is_kept(number):
            await self._topics.subscribing.take_told(number, cid_from_text(event_id))
        else:
            await self._subscribing.take_from(number, event_id)

    def subscriptions(self) -> list[SubscriptionInfo]:
        """List the node's subscriptions, also those without a reader."""
        return [*self._subscribing.all(), *self._topics.subscribing.kept()]

    # --- publishing ---

    async def publish(
        self,
        predicate: Predicate | str,
        payload: bytes = b"",
        *,
        wait: Wait | str = Wait.RENDEZVOUS,
        deadline_s: float = ACKNOWLEDGE_S_MAX,
        key: str | None = None,
        replicas_min: int = 0,
    ) -> Receipt:
        """Publish an event, and wait for what `wait` says.

        The network acknowledges an event with as many replicas as there are live nodes to hold
        them, up to `backups + 1`; the receipt says how many. With fewer than `replicas_min` the
        call raises `TooFewReplicasError`, which has the event's id: the event is published.

        Publication is idempotent by `key`: publishing by the same key again, also after a restart,
        publishes no second event, and returns the receipt of the first. Another content is an
        error. The node forgets keys after `key_age_s_max`, and beyond `key_count_max`.

        An error of a publish is a `PublishError`, with the event's `id`, the `reason` and the
        `state`. An event that was not acknowledged in time (`PublishNotInTimeError`) is stored, and
        the node goes on sending it, also after a restart.
        """
        return await self._publishing.publish(
            self._read(predicate),
            as_payload(payload),
            choice(Wait, wait, "wait"),
            deadline_s,
            key,
            replicas_min,
        )

    def event(self, id: str) -> EventInfo:
        """Tell what this node knows of an event that it has published, or that waits here."""
        must_be_open(self._engine.is_running)
        return self._publishing.about(id)

    # --- groups ---

    def group(self, predicate: Predicate | str, owner: str | None = None) -> Group:
        """A group of this node, or of the node with this address or peer id."""
        return Group(self._groups, self._read, self._read(predicate), owner)

    def groups(self) -> list[KnownGroup]:
        """List the groups that this node owns or is a member of."""
        must_be_open(self._engine.is_running)
        return self._groups.known()

    async def search_groups(self, predicate: Predicate | str) -> list[FoundGroup]:
        """Find the advertised groups that have every attribute of a predicate."""
        return await self._groups.search(self._read(predicate))

    # --- topics ---

    async def create_topic(
        self,
        name: str,
        *,
        ordered: bool = False,
        publishers: Sequence[str] | str | None = None,
        requesters: Sequence[str] | str | None = None,
        linking: str | None = None,
        subtopics: Mapping[str, str] | None = None,
    ) -> Topic:
        """Create a topic of this node.

        In an ordered topic only this node publishes, on request of any peer. `publishers` are peer
        ids, `self` for this node, or `anyone` (the default). `requesters`, which may ask them to
        publish, are peer ids, `anyone` or `nobody`. With the linking `last-seen` events link to the
        newest ones, with `custom` to those that the application names. `subtopics` are the content
        ids of other topics by name.
        """
        wanted = RulesWanted(
            ordered=ordered, publishers=publishers, requesters=requesters, linking=linking
        )
        return await self._topics.create(name, wanted, subtopics or {})

    def topics(self) -> list[KnownTopic]:
        """List the topics that this node has created, subscribes to, keeps, or has just read."""
        must_be_open(self._engine.is_running)
        return self._topics.known()

    def topic(self, id: str) -> Topic:
        """A topic by its content id."""
        return Topic(self._topics, cid_from_text(id))

    async def import_blocks(self, blocks: Sequence[bytes]) -> int:
        """Store the blocks of a CAR file; return how many were valid."""
        return await self._topics.take(blocks)

    def _read(self, predicate: Predicate | str) -> Predicate:
        """Read a predicate, and check this node's limit of attributes."""
        attributes_max = self.config.attribute_count_max
        read = as_predicate(predicate, attributes_max)
        if len(read.attributes) > attributes_max:
            raise LimitError(f"{read} has more than {attributes_max} attributes; use fewer")
        return read
