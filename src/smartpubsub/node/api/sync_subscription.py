"""Subscriptions with blocking methods."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

import trio

from smartpubsub.node.api.arrivals import Event, Subscription
from smartpubsub.node.api.threads import NodeThread
from smartpubsub.node.errors import NotInTimeError


class SyncSubscription:
    """A subscription that is read by iteration or by `get`."""

    def __init__(self, thread: NodeThread, subscription: Subscription) -> None:
        self._thread = thread
        self.subscription = subscription

    def __enter__(self) -> SyncSubscription:
        self._thread.call(self.subscription.__aenter__)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.call(self.subscription.__aexit__, kind, error, traceback)

    def __iter__(self) -> Iterator[Event]:
        while (event := self._thread.call(self._next)) is not None:
            yield event

    def get(self, timeout_s: float) -> Event:
        """Wait for the next event; raises `NotInTimeError` if none comes in time."""
        event = self._thread.call(self._next, timeout_s)
        if event is None:
            raise NotInTimeError(
                f"no event for {self.subscription.predicate} within {timeout_s:g} seconds"
            )
        return event

    def taken(self, id: str) -> None:
        """Acknowledge an event, and all before it: they are not delivered again."""
        self._thread.call(self.subscription.taken, id)

    async def _next(self, timeout_s: float = float("inf")) -> Event | None:
        with trio.move_on_after(timeout_s):
            try:
                return await self.subscription.__anext__()
            except StopAsyncIteration:
                pass
        return None
