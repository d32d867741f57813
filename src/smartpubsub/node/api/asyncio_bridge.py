"""A node for programs that run on asyncio: it lives on trio, in a thread of its own.

async with AsyncioNode(data="~/.smartpubsub") as node:
    async with node.subscribe("portugal/weather") as events:
        async for event in events: ...
    receipt = await node.publish("portugal/weather/temp=24", b"...")
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from smartpubsub.node.api.arrivals import SubscriptionInfo
from smartpubsub.node.api.asyncio_rooms import AsyncioGroup, AsyncioTopic
from smartpubsub.node.api.asyncio_subscription import AsyncioSubscription
from smartpubsub.node.api.event_records import EventInfo
from smartpubsub.node.api.groups import FoundGroup, KnownGroup
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.node.api.threads import NodeThread
from smartpubsub.node.api.topics import KnownTopic
from smartpubsub.predicates import Predicate

T = TypeVar("T")


class AsyncioNode:
    """A node whose methods are awaited on asyncio."""

    def __init__(self, **options: Any) -> None:
        self._thread = NodeThread(**options)

    async def __aenter__(self) -> AsyncioNode:
        await asyncio.to_thread(self._thread.start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self._thread.stop)

    @property
    def peer_id(self) -> str:
        """Who the node is, as libp2p writes it."""
        return self._thread.node.peer_id

    @property
    def addresses(self) -> list[str]:
        """Where the node can be reached, each with its peer id."""
        return self._thread.node.addresses

    async def publish(
        self, predicate: Predicate | str, payload: bytes = b"", **options: Any
    ) -> Receipt:
        """Publish an event, as `Node.publish` does."""
        return await self._do(partial(self._thread.node.publish, predicate, payload, **options))

    async def event(self, id: str) -> EventInfo:
        """Tell what this node knows of an event, as `Node.event` does."""
        return await asyncio.to_thread(self._thread.look, self._thread.node.event, id)

    def subscribe(self, predicate: Predicate | str, **options: Any) -> AsyncioSubscription:
        """A subscription, which begins when it is entered as a context manager."""
        return AsyncioSubscription(self._thread, self._thread.node.subscribe(predicate, **options))

    async def unsubscribe(self, number: int) -> None:
        """End a subscription by its number, also one that nobody takes events of."""
        await self._do(partial(self._thread.node.unsubscribe, number))

    async def subscriptions(self) -> list[SubscriptionInfo]:
        """The node's subscriptions, as `Node.subscriptions` lists them."""
        return await asyncio.to_thread(self._thread.look, self._thread.node.subscriptions)

    def group(self, predicate: Predicate | str, owner: str | None = None) -> AsyncioGroup:
        """A group of this node's, or of another whose address or peer id is given."""
        return AsyncioGroup(self._thread, self._thread.node.group(predicate, owner))

    async def groups(self) -> list[KnownGroup]:
        """The groups that the node owns, and those that it is in."""
        return await asyncio.to_thread(self._thread.look, self._thread.node.groups)

    async def search_groups(self, predicate: Predicate | str) -> list[FoundGroup]:
        """The groups that are advertised and have every attribute that is searched for."""
        return await self._do(partial(self._thread.node.search_groups, predicate))

    async def create_topic(self, name: str, **options: Any) -> AsyncioTopic:
        """Make a topic of this node's, as `Node.create_topic` does."""
        made = await self._do(partial(self._thread.node.create_topic, name, **options))
        return AsyncioTopic(self._thread, made)

    async def topics(self) -> list[KnownTopic]:
        """The topics that the node has to do with, as `Node.topics` lists them."""
        return await asyncio.to_thread(self._thread.look, self._thread.node.topics)

    def topic(self, id: str) -> AsyncioTopic:
        """A topic by its content id, whoever has made it."""
        return AsyncioTopic(self._thread, self._thread.node.topic(id))

    async def import_blocks(self, blocks: Sequence[bytes]) -> int:
        """Take topics and events from a CAR file, and keep them; how many blocks were good."""
        return await self._do(partial(self._thread.node.import_blocks, blocks))

    async def _do(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await asyncio.to_thread(self._thread.call, function)
