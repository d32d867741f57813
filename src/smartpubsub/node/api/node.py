"""A live node, as an application uses it.

    async with Node(bootstrap=[...], data="~/.smartpubsub") as node:
        async with node.subscribe("portugal/weather/temp[20,30]") as events:
            async for event in events: ...
        receipt = await node.publish("portugal/weather/temp=24", b"...")

It runs on trio, as libp2p does; its methods are described in `node/api/interface.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, ClassVar

import trio

from smartpubsub.kademlia.ledger import AccountState
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.node import tracking
from smartpubsub.node.api.arrivals import Subscription, must_be_open
from smartpubsub.node.api.batches import Batches
from smartpubsub.node.api.choices import Wait
from smartpubsub.node.api.groups import Groups
from smartpubsub.node.api.handlers import Handling
from smartpubsub.node.api.interface import NodeInterface
from smartpubsub.node.api.journals import Journals
from smartpubsub.node.api.listing import Distrusted, EventInfo, SubscriptionInfo
from smartpubsub.node.api.past_events import PastEvents
from smartpubsub.node.api.payloads import JSON, Serializer
from smartpubsub.node.api.publishing import Publishing
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.node.api.subscribing import Subscribing
from smartpubsub.node.api.subscription import ReadOptions
from smartpubsub.node.api.topics import Topics
from smartpubsub.node.config_values import Endpoint
from smartpubsub.node.configuration import NodeConfig, NodeOptions, load_config
from smartpubsub.node.control.metrics import NodeMetrics
from smartpubsub.node.control.metrics_server import MetricsServer
from smartpubsub.node.engine import Engine
from smartpubsub.node.errors import NodeError, NoSubscriptionError
from smartpubsub.node.identity import peer_text
from smartpubsub.node.tracking import EventFacts, Why
from smartpubsub.node.transport.contacts import text_of
from smartpubsub.node.transport.containment import Failures
from smartpubsub.predicates import Predicate, PredicateError, as_predicate
from smartpubsub.protocols.blocks import cid_from_text
from smartpubsub.protocols.publication import event_id_from_text

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Neighbour:
    """A peer, as a node sees it."""

    peer_id: str
    address: str
    is_served: bool
    """Whether the node sends events to it."""


@dataclass(frozen=True)
class Route:
    """Where the events of an attribute go, as far as a node knows without asking other nodes."""

    attribute: str
    is_own: bool
    """Whether this node itself is the rendezvous."""
    closest: tuple[str, ...]
    """The known peers closest to the attribute: the next hop first, or the replicas."""


class Node(NodeInterface):
    """A node of the network.

    Its options are the settings of a node; `config` stands for all of them.
    """

    __signature__: ClassVar[Signature]

    def __init__(
        self,
        *,
        config: NodeConfig | None = None,
        serializer: Serializer = JSON,
        **options: Unpack[NodeOptions],
    ) -> None:
        super().__init__(serializer)
        self.config = config or load_config(options, environ={})
        self._engine = self._made_engine()
        self._subscribing = Subscribing(self._engine)
        self._publishing = Publishing(self._engine)
        parts = self._engine, self._subscribing, self._publishing, serializer
        self._groups: Groups = Groups(*parts)
        self._topics: Topics = Topics(*parts)
        self.batches = Batches(
            Journals(self._engine, self._subscribing),
            PastEvents(lambda wanted, since: self.subscribe(wanted, since=since)),
            self._topics.ranges,
            self._publishing,
            self._read,
        )
        self._metrics = NodeMetrics(self._engine, lambda: self.handler_error_count)
        self.metrics_at: Endpoint | None = None
        """Where the running node serves metrics; None if it does not."""
        self._life: AbstractAsyncContextManager[None]
        self._nursery: trio.Nursery

    def _made_engine(self) -> Engine:
        return Engine(self.config)

    # --- running ---

    async def __aenter__(self) -> Node:
        """Start the node, and join the network."""
        self._life = self._live()
        await self._life.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        """Send what is queued, and stop."""
        await self._life.__aexit__(*raised)

    @asynccontextmanager
    async def _live(self) -> AsyncIterator[None]:
        async with self._engine.running(on_end=self._subscribing.finish) as nursery:
            self._nursery = nursery
            await self._subscribing.start()
            nursery.start_soon(self._publishing.retry)
            if self.config.metrics is not None:
                server = MetricsServer(self._metrics.text, self.config.http_hosts)
                self.metrics_at = await nursery.start(server.serve, self.config.metrics)
            for handling in self._handlers.all:
                nursery.start_soon(self._handlers.run, handling)
            try:
                yield
            finally:
                self.metrics_at = None

    @property
    def start_phase(self) -> str:
        """What the node waits for while it starts."""
        return self._engine.start_phase

    @property
    def peer_id(self) -> str:
        """The node's peer id in libp2p's notation."""
        return peer_text(self._engine.host.own.peer)

    @property
    def addresses(self) -> list[str]:
        """The node's addresses, each with its peer id."""
        own = self._engine.host.own
        return [text_of(own.peer, address) for address in own.addresses]

    async def peers(self) -> list[str]:
        """The peers that the node knows."""
        must_be_open(self._engine.is_running)
        contacts = self._engine.core.kademlia.table.contacts()
        return [text_of(c.peer, *c.addresses[:1]) for c in contacts]

    def neighbours(self) -> list[Neighbour]:
        """The peers that the node knows, and those that it sends events to."""
        must_be_open(self._engine.is_running)
        core = self._engine.core
        served = frozenset(core.pubsub.inspect().served)
        return [
            Neighbour(peer_text(c.peer), text_of(c.peer, *c.addresses[:1]), c.peer in served)
            for c in core.kademlia.table.contacts()
        ]

    def routes(self, predicate: Predicate | str) -> list[Route]:
        """For each attribute, the next hop towards its rendezvous, or its replicas."""
        must_be_open(self._engine.is_running)
        kademlia = self._engine.core.kademlia
        routes = []
        for name in self._read(predicate).attributes:
            peers = kademlia.closest_local(name.encode(), self.config.backups + 1)
            is_own = not peers or kademlia.is_closest(name.encode()) is True
            closest = tuple(peer_text(contact.peer) for contact in peers)
            routes.append(Route(name, is_own, closest))
        return routes

    async def metrics(self) -> bytes:
        """The node's metrics in Prometheus' text format."""
        must_be_open(self._engine.is_running)
        return self._metrics.text()

    def ledger(self) -> list[AccountState]:
        """What the node keeps for other nodes, by account, with the limits."""
        must_be_open(self._engine.is_running)
        return [account.state() for account in self._engine.core.kademlia.ledger]

    def distrusted(self) -> list[Distrusted]:
        """The peers that the node has convicted of a lie, and those that it blames without proof.

        The node gives convicted peers no role, and prefers other peers to those that it blames.
        """
        must_be_open(self._engine.is_running)
        now = self._engine.host.clock.now()
        blamed = {state.blamed: state for state in self._engine.core.kademlia.blame.states(now)}
        convicted: dict[bytes | str, str] = dict(self._engine.convicted().items())
        return [
            Distrusted(
                who if isinstance(who, str) else peer_text(who),
                convicted.get(who),
                round(blamed[who].points, 3) if who in blamed else 0.0,
                blamed[who].reasons if who in blamed else {},
            )
            for who in dict.fromkeys([*convicted, *blamed])
        ]

    def failures(self) -> Failures:
        """The inputs that the node has dropped because handling them raised an exception."""
        must_be_open(self._engine.is_running)
        return self._engine.failures

    # --- subscribing ---

    def _subscription(self, predicate: Predicate, options: ReadOptions) -> Subscription:
        return self._subscribing.new(predicate, options, self.serializer)

    def _start(self, handling: Handling) -> None:
        if self._engine.is_running:
            self._nursery.start_soon(self._handlers.run, handling)

    async def unsubscribe(self, number: int) -> None:
        """End a subscription by its number, whether or not it has a reader."""
        if await self._topics.subscribing.unsubscribe(number):
            return
        await self._predicate_of(number)
        await self._subscribing.unsubscribe(number)

    async def _predicate_of(self, number: int) -> Predicate:
        """The predicate of a subscription; an error if there is none with this number."""
        wanted = self._engine.core.subscriptions.get(number)
        if wanted is None:
            known = [f"{each.number} ({each.predicate})" for each in await self.subscriptions()]
            raise NoSubscriptionError(
                f"there is no subscription {number}; there are {', '.join(known) or 'none'}"
            )
        return wanted.predicate

    async def take(self, number: int, event_id: str) -> None:
        """Acknowledge an event of a kept subscription, and all before it."""
        if self._topics.subscribing.is_kept(number):
            await self._topics.subscribing.acknowledge(number, cid_from_text(event_id))
        else:
            await self._subscribing.take_from(number, event_id)

    def has_had(self, number: int, event_id: str) -> bool:
        """Whether an event waits for a kept subscription, or was acknowledged a short time ago."""
        must_be_open(self._engine.is_running)
        if self._topics.subscribing.is_kept(number):
            return self._topics.subscribing.has_had(number, cid_from_text(event_id))
        event_id_from_text(event_id)
        return self._subscribing.has_had(number, event_id)

    async def subscriptions(self) -> list[SubscriptionInfo]:
        """List the node's subscriptions, also those without a reader."""
        return [*self._subscribing.all(), *self._topics.subscribing.kept()]

    # --- publishing ---

    async def _publish(
        self,
        event: Predicate,
        payload: bytes,
        wait: Wait,
        deadline_s: float,
        key: str | None,
        replicas_min: int,
        id: str | None,
    ) -> Receipt:
        return await self._publishing.publish(
            event, payload, wait, deadline_s, key, replicas_min, id
        )

    async def event(self, id: str) -> EventInfo:
        """Report the state of an event that the node has published, or that waits for a reader."""
        must_be_open(self._engine.is_running)
        return self._publishing.about(id)

    async def why(
        self,
        event: str,
        *,
        subscription: int | None = None,
        filter: Predicate | str | None = None,
        publisher_facts: EventFacts | None = None,
    ) -> Why:
        """Explain why an event has arrived at a subscription of this node, or has not."""
        must_be_open(self._engine.is_running)
        event_id_from_text(event)
        facts = self._engine.tracking.facts(event)
        history_us = self.config.history_s_max * SECOND or None
        return tracking.why(
            facts if publisher_facts is None else facts.merged(publisher_facts),
            await self._asked(event, subscription, filter),
            self._engine.host.clock.now(),
            None if self._engine.spec.replay is None else history_us,
        )

    async def _asked(
        self, event: str, number: int | None, filter: Predicate | str | None
    ) -> tracking.AskedSubscription:
        if (number is None) == (filter is None):
            raise NodeError("name the subscription either by its number or by its filter")
        if filter is not None:
            wanted = self._read(filter)
            numbers = self._subscribing.with_predicate(wanted)
        else:
            assert number is not None
            wanted, numbers = await self._predicate_of(number), [number]
        since = [self._engine.tracking.in_force_since(each) for each in numbers]
        waiting = self._engine.queues.holding(event)
        return tracking.AskedSubscription(
            wanted,
            numbers,
            min((at for at in since if at is not None), default=None),
            any(each in numbers for each in waiting),
        )

    async def event_facts(self, id: str) -> EventFacts:
        """Report the facts that the node remembers of an event, for `why` on another node."""
        must_be_open(self._engine.is_running)
        event_id_from_text(id)
        return self._engine.tracking.facts(id)

    def _read(self, predicate: Predicate | str) -> Predicate:
        """Read a predicate, and check this node's limit of attributes."""
        attributes_max = self.config.attribute_count_max
        read = as_predicate(predicate, attributes_max)
        if len(read.attributes) > attributes_max:
            raise PredicateError(f"{read} has more than {attributes_max} attributes; use fewer")
        return read


def node_signature() -> Signature:
    """The parameters of a node by name, for `help` and editors that do not read types."""
    names = ["config", "serializer", *NodeOptions.__annotations__]
    return Signature([Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in names])


Node.__signature__ = node_signature()
