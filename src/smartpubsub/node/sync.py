"""A node for scripts and notebooks: the same, without `async`.

with SyncNode(data="~/.smartpubsub") as node:
    with node.subscribe("portugal/weather") as events:
        node.publish("portugal/weather/temp=24", b"...")
        print(events.get(timeout_s=5))
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import TracebackType
from typing import Any

import trio

from smartpubsub.node.arrivals import Event, Subscription
from smartpubsub.node.errors import NotInTimeError
from smartpubsub.node.receipts import Receipt
from smartpubsub.node.threads import NodeThread
from smartpubsub.predicates import Predicate


class SyncNode:
    """A node whose methods wait until they are done."""

    def __init__(self, **options: Any) -> None:
        self._thread = NodeThread(**options)

    def __enter__(self) -> SyncNode:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.stop()

    @property
    def peer_id(self) -> str:
        """Who the node is, as libp2p writes it."""
        return self._thread.node.peer_id

    @property
    def addresses(self) -> list[str]:
        """Where the node can be reached, each with its peer id."""
        return self._thread.node.addresses

    def publish(self, predicate: Predicate | str, payload: bytes = b"", **options: Any) -> Receipt:
        """Publish an event, as `Node.publish` does."""
        return self._thread.call(partial(self._thread.node.publish, predicate, payload, **options))

    def subscribe(self, predicate: Predicate | str, **options: Any) -> SyncSubscription:
        """A subscription, which begins when it is entered as a context manager."""
        return SyncSubscription(self._thread, self._thread.node.subscribe(predicate, **options))


class SyncSubscription:
    """A subscription that is read by iterating or by `get`."""

    def __init__(self, thread: NodeThread, subscription: Subscription) -> None:
        self._thread = thread
        self._subscription = subscription

    def __enter__(self) -> SyncSubscription:
        self._thread.call(self._subscription.__aenter__)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.call(self._subscription.__aexit__, None, None, None)

    def __iter__(self) -> Iterator[Event]:
        while (event := self._thread.call(self._next)) is not None:
            yield event

    def get(self, timeout_s: float) -> Event:
        """The next event; `NotInTimeError` if none comes in time."""
        event = self._thread.call(self._next, timeout_s)
        if event is None:
            raise NotInTimeError(
                f"no event for {self._subscription.predicate} within {timeout_s:g} seconds"
            )
        return event

    async def _next(self, timeout_s: float = float("inf")) -> Event | None:
        with trio.move_on_after(timeout_s):
            try:
                return await self._subscription.__anext__()
            except StopAsyncIteration:
                pass
        return None
