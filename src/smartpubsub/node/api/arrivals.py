"""A subscription of a live node: the queue in which its events wait for the application."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Protocol

import trio

from smartpubsub.node.api.choices import Overflow
from smartpubsub.node.api.events import Event, event_of, time_of
from smartpubsub.node.api.payloads import JSON, Serializer
from smartpubsub.node.api.subscription import EventStream
from smartpubsub.node.errors import NodeClosedError, NodeError, OverflowedError
from smartpubsub.node.storage.kept import SEEN_COUNT_MAX, KeptQueue
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.pubsub import SubscriptionState
from smartpubsub.protocols.scoutsubs.replay import CaughtUp, Past

_log = logging.getLogger(__name__)


class SubscriptionOwner(Protocol):
    """The component that begins and ends subscriptions."""

    async def open(self, subscription: Subscription) -> None:
        """Begin a subscription, and wait until it is in force."""
        ...

    async def end(self, subscription: Subscription) -> None:
        """End a subscription, or leave it if it is kept."""
        ...

    async def take(self, subscription: Subscription, id: str) -> None:
        """Remove an event, and all before it, from the subscription's queue on disk."""
        ...

    def state_of(self, subscription: Subscription) -> SubscriptionState:
        """Report how far a subscription has come."""
        ...


class Subscription(EventStream):
    """A subscription of an application, and the events that wait for it.

    Events wait in memory (`drop-oldest`, `error`), or on disk (`keep`, `block`).
    """

    def __init__(
        self,
        owner: SubscriptionOwner,
        predicate: Predicate,
        *,
        buffer_count_max: int,
        overflow: Overflow,
        past: Past | None = None,
        keep: bool = False,
        acknowledges: bool = True,
        serializer: Serializer = JSON,
        epoch: bytes = b"",
    ) -> None:
        self.predicate = predicate
        self.epoch = epoch
        """The epoch of the subscription's journal; empty if it has none."""
        self.past = past
        """The history that the subscription begins with, if any."""
        self.recalled = 0
        self.is_whole = True
        self.kept_since: datetime | None = None
        self.dropped = 0
        self.number: int | None = None
        self.was_there = False
        self.is_kept = keep
        self.waits_on_disk = keep or overflow is Overflow.BLOCK
        self.acknowledges = acknowledges
        self._serializer = serializer
        self._owner = owner
        self._buffer: deque[Event] = deque()
        self._buffer_count_max = buffer_count_max
        self._overflow = overflow
        self._gap = 0
        """The number of events dropped since the application took the last one."""
        self._queue: KeptQueue | None = None
        self._unacknowledged: dict[str, None] = {}
        """The events from disk that the application has and has not acknowledged."""
        self._changed = trio.Event()
        self._has_ended = False
        self._problem: NodeError | None = None
        """Why no more events come, if the reason is an error."""
        self._seen: OrderedDict[str, None] | None = None
        self._past: deque[Event] = deque()
        """History. It was read as a whole, so the limit of the buffer does not apply."""
        self._is_catching_up = past is not None

    @property
    def queue(self) -> KeptQueue | None:
        """The queue on disk, if events wait there."""
        return self._queue

    def share(self) -> None:
        """Deliver each event once although it comes by two protocols."""
        if self._queue is not None:
            self._queue.share()
        if self._seen is None:
            self._seen = OrderedDict.fromkeys(event.id for event in self._buffer)

    def begin(self, number: int, queue: KeptQueue | None) -> None:
        """Set the number, and the queue on disk if there is one."""
        self.number = number
        self._queue = queue
        if queue is not None:
            self.is_kept = queue.is_kept
            queue.begin()
            if self._seen is not None:
                queue.share()
            if self._is_catching_up:
                queue.begin_history()

    async def open(self) -> None:
        """Begin, and wait until the subscription is in force."""
        await self._owner.open(self)

    async def close(self, *, is_done: bool = True) -> None:
        """End the subscription, or leave it if it is kept."""
        if is_done and self.acknowledges:
            await self._take_given()
        await self._owner.end(self)

    async def next(self, timeout_s: float | None = None) -> Event | None:
        """Wait for the next event; None at the end."""
        if timeout_s is None:
            return await self._next()
        with trio.move_on_after(timeout_s) as limit:
            return await self._next()
        assert limit.cancelled_caught
        raise TimeoutError

    async def _next(self) -> Event | None:
        if self.acknowledges:
            await self._take_given()
        while True:
            if self._past:
                return self._past.popleft()
            if self._buffer:
                return self._from_memory()
            if (event := self._from_disk()) is not None:
                return event
            if self._problem is not None:
                raise self._problem
            if self._has_ended:
                return None
            self._changed = trio.Event()
            await self._changed.wait()

    def _from_memory(self) -> Event:
        gap, self._gap = self._gap, 0
        if not gap:
            return self._buffer.popleft()
        if self._overflow is Overflow.ERROR:
            raise OverflowedError(self.predicate, gap, self._buffer_count_max)
        return replace(self._buffer.popleft(), dropped_before=gap)

    def _from_disk(self) -> Event | None:
        if self._queue is None or self._has_ended:
            return None
        found = self._queue.next()
        self.dropped = self._queue.dropped
        if found is None:
            return None
        delivery, dropped_before = found
        event = event_of(delivery.event, delivery.hops, self._serializer)
        event = replace(event, dropped_before=dropped_before)
        self._unacknowledged[event.id] = None
        while len(self._unacknowledged) > len(self._queue):  # A limit has dropped the rest.
            del self._unacknowledged[next(iter(self._unacknowledged))]
        return event

    async def _take_given(self) -> None:
        if self._unacknowledged:
            await self.taken(next(reversed(self._unacknowledged)))

    async def taken(self, id: str) -> None:
        """Acknowledge an event, and all before it."""
        if id not in self._unacknowledged:
            return
        await self._owner.take(self, id)
        while id in self._unacknowledged:
            del self._unacknowledged[next(iter(self._unacknowledged))]

    @property
    def state(self) -> SubscriptionState:
        """How far the subscription has come."""
        return self._owner.state_of(self)

    @property
    def waiting(self) -> int:
        """The number of events that wait."""
        return len(self._past) + len(self._buffer) + len(self._queue or ())

    def put(self, event: Event) -> Event | None:
        """Queue an event in memory; if the queue is full, drop its oldest event and return it."""
        if self._has_ended or self._problem is not None or self._is_known(event):
            return None
        if self._serializer is not event.serializer:
            event = replace(event, serializer=self._serializer)
        if self._is_catching_up:
            self._past.append(event)
            return None
        dropped = None
        if len(self._buffer) >= self._buffer_count_max:
            dropped = self._buffer.popleft()
            self._gap += 1
            self.dropped += 1
            if self.dropped == 1:
                self._log_overflow()
        self._buffer.append(event)
        self._changed.set()
        return dropped

    def _log_overflow(self) -> None:
        fields = {
            "subscription": self.number,
            "predicate": self.predicate,
            "buffer_count_max": self._buffer_count_max,
        }
        problem = "a subscription is not read fast enough, and drops its oldest events"
        _log.warning(problem, extra={"fields": fields})

    def on_stored(self, id: str) -> None:
        """Wake the reader: an event is on disk."""
        if self._queue is not None:
            self._queue.show(id)
        self._changed.set()

    def _is_known(self, event: Event) -> bool:
        """Remember an event that may come by two protocols; return whether it has come before."""
        if self._seen is None:
            return False
        is_known = event.id in self._seen
        self._seen[event.id] = None
        if len(self._seen) > SEEN_COUNT_MAX:
            self._seen.popitem(last=False)
        return is_known

    def caught_up(self, notice: CaughtUp, waiting: Iterable[Event]) -> None:
        """End the history; the events that waited before it follow, each once."""
        self._seen = OrderedDict.fromkeys(event.id for event in self._past)
        self._is_catching_up = False
        self.recalled = notice.given
        self.kept_since = time_of(notice.oldest_us) if notice.oldest_us else None
        self.is_whole = notice.is_whole
        for event in waiting:
            self.put(event)

    def fail(self, problem: NodeError) -> None:
        """End the subscription; the reader gets an error after the events that wait."""
        self._problem = problem
        self._changed.set()

    def finish(self) -> None:
        """End the subscription: no more events come."""
        self._has_ended = True
        self._changed.set()


def must_be_open(is_open: bool) -> None:
    """Raise an error unless a node is running."""
    if not is_open:
        raise NodeClosedError("the node is not running; use it inside 'async with Node(...)'")
