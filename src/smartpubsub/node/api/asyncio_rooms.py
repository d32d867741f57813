"""Topics and groups for programs that run on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from smartpubsub.node.api.asyncio_subscription import AsyncioSubscription
from smartpubsub.node.api.group import Group
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.node.api.threads import NodeThread
from smartpubsub.node.api.topic import Topic
from smartpubsub.node.api.topic_events import Exported, History, TopicReceipt
from smartpubsub.node.api.topics import Stock
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.pulsarcast import topics as descriptors

T = TypeVar("T")


class _Bridged:
    def __init__(self, thread: NodeThread) -> None:
        self._thread = thread

    async def _do(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await asyncio.to_thread(self._thread.call, function)


class AsyncioTopic(_Bridged):
    """A topic whose methods are awaited on asyncio."""

    def __init__(self, thread: NodeThread, topic: Topic) -> None:
        super().__init__(thread)
        self._topic = topic

    @property
    def id(self) -> str:
        """The topic's content id."""
        return self._topic.id

    async def stock(self) -> Stock:
        """What this node keeps of it."""
        return await asyncio.to_thread(self._thread.look, self._topic.stock)

    def subscribe(self, **options: Any) -> AsyncioSubscription:
        """Subscribe, as `Topic.subscribe` does."""
        return AsyncioSubscription(self._thread, self._topic.subscribe(**options))

    def keep(self, **options: Any) -> AsyncioSubscription:
        """Make a kept subscription, as `Topic.keep` does."""
        return AsyncioSubscription(self._thread, self._topic.keep(**options))

    async def show(self) -> descriptors.Topic:
        """The newest version of its descriptor."""
        return await self._do(self._topic.show)

    async def versions(self) -> list[descriptors.Topic]:
        """All versions of its descriptor, the newest first."""
        return await self._do(self._topic.versions)

    async def update(self, **options: Any) -> descriptors.Topic:
        """Make a new version of it, as `Topic.update` does."""
        return await self._do(partial(self._topic.update, **options))

    async def pin(self) -> None:
        """Keep all its events on this node, whatever the limits are."""
        await self._do(self._topic.pin)

    async def unpin(self) -> None:
        """Apply the limits of this node to it again."""
        await self._do(self._topic.unpin)

    async def publish(self, payload: bytes, **options: Any) -> TopicReceipt:
        """Publish in it, as `Topic.publish` does."""
        return await self._do(partial(self._topic.publish, payload, **options))

    async def history(self, **options: Any) -> History:
        """Read its events, as `Topic.history` does."""
        return await self._do(partial(self._topic.history, **options))

    async def export(self, path: Path | str) -> Exported:
        """Write all its blocks to a CAR file, as `Topic.export` does."""
        return await self._do(partial(self._topic.export, path))


class AsyncioGroup(_Bridged):
    """A group whose methods are awaited on asyncio."""

    def __init__(self, thread: NodeThread, group: Group) -> None:
        super().__init__(thread)
        self._group = group

    @property
    def predicate(self) -> Predicate:
        """The predicate that all its events match."""
        return self._group.predicate

    async def create(self, **options: Any) -> AsyncioGroup:
        """Create it, as `Group.create` does; `accept` is called in the node's thread."""
        await self._do(partial(self._group.create, **options))
        return self

    async def invite(self, peer_id: str) -> bytes:
        """Make an invitation for a peer."""
        return await asyncio.to_thread(self._thread.look, self._group.invite, peer_id)

    def join(
        self,
        wanted: Predicate | str | None = None,
        *,
        beside: AsyncioSubscription | None = None,
        **options: Any,
    ) -> AsyncioSubscription:
        """Join it, as `Group.join` does."""
        other = None if beside is None else beside.subscription
        membership = self._group.join(wanted, beside=other, **options)
        return AsyncioSubscription(self._thread, membership)

    async def advertise(self) -> None:
        """Advertise it, again if it is advertised already."""
        await self._do(self._group.advertise)

    async def publish(
        self, event: Predicate | str, payload: bytes = b"", **options: Any
    ) -> Receipt:
        """Publish in it, as `Group.publish` does."""
        return await self._do(partial(self._group.publish, event, payload, **options))

    async def leave(self) -> int:
        """End all memberships of this node in it; return how many there were."""
        return await self._do(self._group.leave)
