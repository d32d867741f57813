"""A node for programs that run on asyncio: it lives on trio, in a thread of its own.

async with AsyncioNode(data="~/.smartpubsub") as node:
    async with node.subscribe("portugal/weather") as events:
        async for event in events: ...
    receipt = await node.publish("portugal/weather/temp=24", b"...")
"""

from __future__ import annotations

import asyncio
from functools import partial
from types import TracebackType
from typing import Any

import trio

from smartpubsub.node.arrivals import Event, Subscription
from smartpubsub.node.receipts import Receipt
from smartpubsub.node.threads import NodeThread
from smartpubsub.predicates import Predicate

_CROSSING_COUNT_MAX = 16
"""How many events may lie between the node's thread and asyncio's; the others wait on its side."""


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
        publish = partial(self._thread.node.publish, predicate, payload, **options)
        return await asyncio.to_thread(self._thread.call, publish)

    def subscribe(self, predicate: Predicate | str, **options: Any) -> AsyncioSubscription:
        """A subscription, which begins when it is entered as a context manager."""
        return AsyncioSubscription(self._thread, self._thread.node.subscribe(predicate, **options))


class AsyncioSubscription:
    """A subscription that is iterated on asyncio."""

    def __init__(self, thread: NodeThread, subscription: Subscription) -> None:
        self._thread = thread
        self._subscription = subscription
        self._events: asyncio.Queue[Event | BaseException | None] = asyncio.Queue(
            _CROSSING_COUNT_MAX
        )
        self._loop: asyncio.AbstractEventLoop
        self._reading = trio.CancelScope()

    async def __aenter__(self) -> AsyncioSubscription:
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._thread.call, self._begin)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self._thread.call, self._end)

    def __aiter__(self) -> AsyncioSubscription:
        return self

    async def __anext__(self) -> Event:
        item = await self._events.get()
        if item is None:
            raise StopAsyncIteration
        if isinstance(item, BaseException):
            raise item
        return item

    # --- on the node's side ---

    async def _begin(self) -> None:
        await self._subscription.__aenter__()
        self._thread.nursery.start_soon(self._pass_on)

    async def _end(self) -> None:
        self._reading.cancel()
        await self._subscription.__aexit__(None, None, None)

    async def _pass_on(self) -> None:
        with self._reading:
            try:
                async for event in self._subscription:
                    await self._put(event)
                await self._put(None)
            except Exception as error:  # Whoever iterates is the one to hear of it.
                await self._put(error)

    async def _put(self, item: Event | BaseException | None) -> None:
        crossing = asyncio.run_coroutine_threadsafe(self._events.put(item), self._loop)
        await trio.to_thread.run_sync(crossing.result, abandon_on_cancel=True)  # type: ignore[call-arg]
