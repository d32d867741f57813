"""Subscriptions of a node that lives on trio, for programs that run on asyncio."""

from __future__ import annotations

import asyncio
from types import TracebackType

import trio

from smartpubsub.node.api.arrivals import Event, Subscription
from smartpubsub.node.api.threads import NodeThread
from smartpubsub.node.api.topic_subscription import KeptSubscription

_CROSSING_COUNT_MAX = 16
"""How many events may lie between the node's thread and asyncio's; the others wait on its side."""


class AsyncioSubscription:
    """A subscription that is iterated on asyncio."""

    def __init__(self, thread: NodeThread, subscription: Subscription) -> None:
        self._thread = thread
        self.subscription = subscription
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
        await self.subscription.__aenter__()
        self._thread.nursery.start_soon(self._pass_on)

    async def _end(self) -> None:
        self._reading.cancel()
        await self.subscription.__aexit__(None, None, None)

    async def _pass_on(self) -> None:
        with self._reading:
            try:
                async for event in self.subscription:
                    await self._put(event)
                await self._put(None)
            except Exception as error:  # Whoever iterates is the one to hear of it.
                await self._put(error)

    async def _put(self, item: Event | BaseException | None) -> None:
        crossing = asyncio.run_coroutine_threadsafe(self._events.put(item), self._loop)
        await trio.to_thread.run_sync(crossing.result, abandon_on_cancel=True)  # type: ignore[call-arg]


class AsyncioKept(AsyncioSubscription):
    """A subscription that is kept: an event is taken when the next is asked for, or it is left."""

    def __init__(self, thread: NodeThread, subscription: KeptSubscription) -> None:
        super().__init__(thread, subscription)
        self._kept = subscription
        self._last: str | None = None

    async def __anext__(self) -> Event:
        await self._take_last()
        event = await super().__anext__()
        self._last = event.id
        return event

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            await self._take_last()
        await super().__aexit__(kind, error, traceback)

    async def _take_last(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            await asyncio.to_thread(self._thread.call, self._kept.taken, last)
