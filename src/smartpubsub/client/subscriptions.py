"""Subscriptions of a client."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from smartpubsub.client.documents import entry_in, event_in, gaps_in, time_in
from smartpubsub.client.transport import EventLines, Transport
from smartpubsub.node.api.events import Entry, Event
from smartpubsub.node.api.listing import Gaps
from smartpubsub.node.api.payloads import Serializer
from smartpubsub.node.api.subscription import EventStream, ReadOptions, TopicStream
from smartpubsub.node.errors import NodeClosedError
from smartpubsub.predicates import Predicate

TAKE_COUNT_MAX = 32
"""A reader acknowledges at the latest after this many events."""
WINDOW_COUNT_MAX = 64
"""Events that the node sends ahead of the reader."""


def reading_fields(options: ReadOptions) -> dict[str, object]:
    """The fields of a request that say how events are read."""
    return {
        **past_fields(options.since, options.last),
        "overflow": options.overflow.value,
        "buffer_count_max": options.buffer_count_max,
        "proof": True,
        "window": window_of(options),
    }


def window_of(options: ReadOptions) -> int:
    """How many events the node sends ahead of the reader; later ones wait in the node."""
    return min(WINDOW_COUNT_MAX, options.buffer_count_max)


def past_fields(since: str | datetime | None, last: int | None) -> dict[str, object]:
    """The fields of a request that say which history is wanted."""
    if last is not None:
        return {"last": last}
    if since is None:
        return {}
    return {"since": since.isoformat() if isinstance(since, datetime) else since}


class ClientSubscription(EventStream):
    """A subscription, which a running node holds for this client."""

    def __init__(
        self,
        transport: Transport,
        do: str,
        fields: Mapping[str, object],
        predicate: Predicate,
        options: ReadOptions,
        serializer: Serializer,
    ) -> None:
        self.predicate = predicate
        self.number: int | None = None
        self.was_there = False
        self.is_kept = options.keep
        self.acknowledges = options.acknowledges
        self.dropped = 0
        self.recalled = 0
        self.is_whole = True
        self.kept_since: datetime | None = None
        self._transport = transport
        self._do = do
        self._fields = fields
        self._serializer = serializer
        self._lines: EventLines | None = None
        self._last: str | None = None
        """The event that the application has and has not processed."""
        self._done: str | None = None
        """The last event that the application has processed, not acknowledged to the node."""
        self._window = window_of(options)
        self._read_count = 0
        """The number of events that the reader has taken since it last widened the window."""
        self._unacknowledged = 0
        """The number of events processed and not acknowledged to the node."""

    async def open(self) -> None:
        """Begin, and wait until the subscription is in force."""
        self._lines = await self._transport.open(self._do, self._fields)
        self._begin(self._lines.begun)

    def _begin(self, begun: Mapping[str, Any]) -> None:
        self.number = begun["subscription"]
        self.was_there = begun.get("was_there", False)
        self.is_kept = begun.get("is_kept", self.is_kept)
        if "history" in begun:
            self.recalled = begun["history"]["events"]
            self.is_whole = begun["history"]["is_whole"]
            self.kept_since = time_in(begun["history"]["kept_since"])

    async def close(self, *, is_done: bool = True) -> None:
        """End the subscription, or leave it if it is kept."""
        lines, self._lines = self._lines, None
        if lines is None:
            return
        done = (self._last if is_done else None) or self._done
        try:
            if self.acknowledges and done is not None:
                await self.taken(done)
        finally:
            await lines.close()

    async def next(self, timeout_s: float | None = None) -> Event | None:
        """Wait for the next event; None at the end."""
        document = await self._next_document(timeout_s)
        return None if document is None else event_in(document, self._serializer)

    async def _next_document(self, timeout_s: float | None) -> Mapping[str, Any] | None:
        if self._lines is None:
            raise NodeClosedError("the subscription is not open; use it inside its 'with' block")
        await self._take_last(self._lines)
        if self._read_count * 2 >= self._window:
            await self._lines.send_about("more", {"count": self._read_count})
            self._read_count = 0
        line = await self._lines.next(timeout_s)
        if line is None:
            return None
        self._read_count += 1
        self.dropped = line["dropped"]
        document: Mapping[str, Any] = line["event"]
        if self.is_kept:
            self._last = document["id"]
        return document

    async def _take_last(self, lines: EventLines) -> None:
        """Acknowledge the previous event; events in the client's buffer together."""
        if not self.acknowledges or self._last is None:
            return
        self._done, self._last = self._last, None
        self._unacknowledged += 1
        if not lines.has_next or self._unacknowledged >= TAKE_COUNT_MAX:
            await lines.send("take", {"subscription": self.number, "event": self._done})
            self._done, self._unacknowledged = None, 0

    async def taken(self, id: str) -> None:
        """Acknowledge an event, and all before it."""
        if self.is_kept and self.number is not None:
            await self._transport.ask("take", {"subscription": self.number, "event": id})
            if id == self._last:
                self._last = None


class ClientTopicSubscription(ClientSubscription, TopicStream):
    """A subscription to a topic."""

    gaps = Gaps()

    def _begin(self, begun: Mapping[str, Any]) -> None:
        super()._begin(begun)
        self.gaps = gaps_in(begun["gaps"])

    async def next(self, timeout_s: float | None = None) -> Entry | None:
        """Wait for the next event; None at the end."""
        document = await self._next_document(timeout_s)
        return None if document is None else entry_in(document, self._serializer)
