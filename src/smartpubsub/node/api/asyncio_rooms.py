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
        """The topic's content id, which is what others need to find it."""
        return self._topic.id

    async def stock(self) -> Stock:
        """What this node has of it."""
        return await asyncio.to_thread(self._thread.look, self._topic.stock)

    def subscribe(self, **options: Any) -> AsyncioSubscription:
        """Its events while this is entered, as `Topic.subscribe` gives them."""
        return AsyncioSubscription(self._thread, self._topic.subscribe(**options))

    def keep(self, **options: Any) -> AsyncioSubscription:
        """The same, for a subscription that goes on when it is left, and after a restart."""
        return AsyncioSubscription(self._thread, self._topic.keep(**options))

    async def show(self) -> descriptors.Topic:
        """The newest version of its descriptor."""
        return await self._do(self._topic.show)

    async def versions(self) -> list[descriptors.Topic]:
        """All versions of its descriptor, the newest first."""
        return await self._do(self._topic.versions)

    async def update(self, **options: Any) -> descriptors.Topic:
        """Make a new version of a topic of this node's, as `Topic.update` does."""
        return await self._do(partial(self._topic.update, **options))

    async def pin(self) -> None:
        """Have this node keep all of it, whatever is let go of others."""
        await self._do(self._topic.pin)

    async def unpin(self) -> None:
        """Have this node keep as much of it as of others."""
        await self._do(self._topic.unpin)

    async def publish(self, payload: bytes, **options: Any) -> TopicReceipt:
        """Publish in it, as `Topic.publish` does."""
        return await self._do(partial(self._topic.publish, payload, **options))

    async def history(self, **options: Any) -> History:
        """Its events in its order, as `Topic.history` gives them."""
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
        """What all its events match."""
        return self._group.predicate

    async def create(self, **options: Any) -> AsyncioGroup:
        """Own it, as `Group.create` does; `accept` is called in the node's thread."""
        await self._do(partial(self._group.create, **options))
        return self

    async def invite(self, peer_id: str) -> bytes:
        """An invitation for a peer, with which it can join."""
        return await asyncio.to_thread(self._thread.look, self._group.invite, peer_id)

    def join(
        self,
        wanted: Predicate | str | None = None,
        *,
        beside: AsyncioSubscription | None = None,
        **options: Any,
    ) -> AsyncioSubscription:
        """Be in it while this is entered, as `Group.join` does."""
        other = None if beside is None else beside.subscription
        membership = self._group.join(wanted, beside=other, **options)
        return AsyncioSubscription(self._thread, membership)

    async def advertise(self) -> None:
        """Put it on the boards, if it is not there yet, or once more."""
        await self._do(self._group.advertise)

    async def publish(
        self, event: Predicate | str, payload: bytes = b"", **options: Any
    ) -> Receipt:
        """Publish in it, as `Group.publish` does."""
        return await self._do(partial(self._group.publish, event, payload, **options))

    async def leave(self) -> int:
        """End all memberships in it that this node has; how many there were."""
        return await self._do(self._group.leave)
