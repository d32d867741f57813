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
        """The node's peer id in libp2p's notation."""
        return self._thread.node.peer_id

    @property
    def addresses(self) -> list[str]:
        """The node's addresses, each with its peer id."""
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
        """Make a subscription, as `Node.subscribe` does."""
        return AsyncioSubscription(self._thread, self._thread.node.subscribe(predicate, **options))

    async def unsubscribe(self, number: int) -> None:
        """End a subscription by its number, whether or not it has a reader."""
        await self._do(partial(self._thread.node.unsubscribe, number))

    async def subscriptions(self) -> list[SubscriptionInfo]:
        """List the node's subscriptions, as `Node.subscriptions` does."""
        return await asyncio.to_thread(self._thread.look, self._thread.node.subscriptions)

    def group(self, predicate: Predicate | str, owner: str | None = None) -> AsyncioGroup:
        """A group of this node, or of the node with this address or peer id."""
        return AsyncioGroup(self._thread, self._thread.node.group(predicate, owner))

    async def groups(self) -> list[KnownGroup]:
        """List the groups that the node owns or is a member of."""
        return await asyncio.to_thread(self._thread.look, self._thread.node.groups)

    async def search_groups(self, predicate: Predicate | str) -> list[FoundGroup]:
        """Find the advertised groups that have every attribute of a predicate."""
        return await self._do(partial(self._thread.node.search_groups, predicate))

    async def create_topic(self, name: str, **options: Any) -> AsyncioTopic:
        """Create a topic, as `Node.create_topic` does."""
        made = await self._do(partial(self._thread.node.create_topic, name, **options))
        return AsyncioTopic(self._thread, made)

    async def topics(self) -> list[KnownTopic]:
        """List the topics that the node knows, as `Node.topics` does."""
        return await asyncio.to_thread(self._thread.look, self._thread.node.topics)

    def topic(self, id: str) -> AsyncioTopic:
        """A topic by its content id."""
        return AsyncioTopic(self._thread, self._thread.node.topic(id))

    async def import_blocks(self, blocks: Sequence[bytes]) -> int:
        """Store the blocks of a CAR file; return how many were valid."""
        return await self._do(partial(self._thread.node.import_blocks, blocks))

    async def _do(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await asyncio.to_thread(self._thread.call, function)
