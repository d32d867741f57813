"""Subscriptions for programs that run on asyncio; the node runs on trio, in its own thread."""

from __future__ import annotations

import asyncio
from types import TracebackType

import trio

from smartpubsub.node.api.arrivals import Event, Subscription
from smartpubsub.node.api.threads import NodeThread
from smartpubsub.node.errors import OverflowedError

_CROSSING_COUNT_MAX = 16
"""Events between the node's thread and asyncio's; the others wait in the subscription."""


class AsyncioSubscription:
    """A subscription that is iterated on asyncio.

    Asking for the next event acknowledges the one before it, and so does leaving the block without
    an error, unless the subscription was made with `acknowledges=False`.
    """

    def __init__(self, thread: NodeThread, subscription: Subscription) -> None:
        self._thread = thread
        self.subscription = subscription
        self._acknowledges = subscription.acknowledges
        # Events between the threads are not with the application yet.
        subscription.acknowledges = False
        self._last: str | None = None
        """The event that the application has and has not acknowledged."""
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
        if kind is None:
            await self._take_last()
        await asyncio.to_thread(self._thread.call, self._end)

    def __aiter__(self) -> AsyncioSubscription:
        return self

    async def __anext__(self) -> Event:
        await self._take_last()
        item = await self._events.get()
        if item is None:
            raise StopAsyncIteration
        if isinstance(item, BaseException):
            raise item
        self._last = item.id
        return item

    async def taken(self, id: str) -> None:
        """Acknowledge an event, and all before it: they are not delivered again."""
        await asyncio.to_thread(self._thread.call, self.subscription.taken, id)

    async def _take_last(self) -> None:
        last, self._last = self._last, None
        is_needed = self.subscription.is_kept or self.subscription.waits_on_disk
        if last is not None and self._acknowledges and is_needed:
            await self.taken(last)

    # --- in the node's thread ---

    async def _begin(self) -> None:
        await self.subscription.__aenter__()
        self._thread.nursery.start_soon(self._pass_on)

    async def _end(self) -> None:
        self._reading.cancel()
        await self.subscription.__aexit__(None, None, None)

    async def _pass_on(self) -> None:
        with self._reading:
            while True:
                try:
                    async for event in self.subscription:
                        await self._put(event)
                except OverflowedError as error:  # The reader can go on after it.
                    await self._put(error)
                except Exception as error:
                    await self._put(error)
                    return
                else:
                    await self._put(None)
                    return

    async def _put(self, item: Event | BaseException | None) -> None:
        crossing = asyncio.run_coroutine_threadsafe(self._events.put(item), self._loop)
        await trio.to_thread.run_sync(crossing.result, abandon_on_cancel=True)  # type: ignore[call-arg]
