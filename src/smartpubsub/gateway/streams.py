"""Live events for many listeners: each filter has one subscription, one encoding and one journal.

A journal numbers the events of a subscription in the order in which they came, and holds the newest
ones. A listener is a position in a journal, so it can leave and resume. The journal
stays for a time when its last listener has left.

A position is one of

    live-EPOCH-NUMBER-TIME   an event of a journal, and its time of publication
    past-ID                  an event of history, before the journal

The epoch is random for each journal. The gateway resumes at a position of another epoch from
history, since the time of that event, and says so.
"""

from __future__ import annotations

import secrets
import sys
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

import trio
from trio_typing import TaskStatus

from smartpubsub.errors import SmartPubSubError
from smartpubsub.gateway.problems import ProblemError
from smartpubsub.node.api.events import Event
from smartpubsub.node.api.subscription import EventStream
from smartpubsub.protocols.runtime.bounded import BoundedDict

CLOCK_SKEW = timedelta(seconds=60)
"""How far publishers' clocks may differ; history overlaps an outdated position by as much."""

BATCH_BYTES_MAX = 256 << 10
"""After so many bytes, a listener gets no further event at once: a client that does not read costs
that much memory, several times."""
KNOWN_COUNT_MAX = 10_000
"""Events of history that a listener remembers, so that none comes a second time."""
OUTDATED = (
    "the node no longer has this position; it resumes from history, a minute before that event,"
    " so some events come a second time"
)

_EPOCH_OF_TIME = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class StreamLimits:
    """The limits of the gateway's streams."""

    listener_count_max: int = 2_000
    journal_count_max: int = 256
    journal_event_count_max: int = 20_000
    journal_bytes_max: int = 16 << 20
    """Limits of one journal, which drops its oldest events first."""
    all_bytes_max: int = 128 << 20
    """Bytes of all journals together."""
    lag_count_max: int = 1_000
    """The gateway disconnects a listener that falls behind by this many events; it can resume."""
    linger_s: float = 300.0
    """How long a journal stays without a listener."""
    keep_alive_s: float = 15.0


class Source(Protocol):
    """The source of a stream: a filter, or a topic."""

    @property
    def name(self) -> str:
        """Equal names share a journal."""
        ...

    def subscribe(
        self, since: str | datetime | None, last: int | None
    ) -> AbstractAsyncContextManager[EventStream]:
        """Subscribe, with history if it is wanted."""
        ...

    def is_whole(self, subscription: EventStream) -> bool:
        """Whether no event of that history is known to be missing."""
        ...

    def encode(self, event: Event) -> bytes:
        """Write an event as JSON."""
        ...


class Live(NamedTuple):
    """A position in a journal."""

    epoch: str
    number: int
    at: datetime

    def __str__(self) -> str:
        return f"live-{self.epoch}-{self.number}-{int(self.at.timestamp() * 1_000_000)}"


class Stored(NamedTuple):
    """A position in history."""

    event_id: str

    def __str__(self) -> str:
        return f"past-{self.event_id}"


def read_position(text: str) -> Live | Stored:
    """Read a position."""
    kind, _, rest = text.partition("-")
    if kind == "past" and rest:
        return Stored(rest)
    parts = rest.split("-")
    try:
        epoch, number, at_us = parts
        if kind != "live" or not all(p.isascii() and p.isdigit() for p in (number, at_us)):
            raise ValueError
        return Live(epoch, int(number), _EPOCH_OF_TIME + timedelta(microseconds=int(at_us)))
    except (ValueError, OverflowError):
        raise ProblemError(
            400, f"{text[:60]!r} is no position; send the id of an event of this stream"
        ) from None


class Item(NamedTuple):
    """An event of a stream."""

    position: Live | Stored
    event_id: str
    json: bytes


class EndOfStored(NamedTuple):
    """The mark between history and live events."""

    event_count: int
    is_whole: bool


class Gap(NamedTuple):
    """Events that are missing from a stream, or that may come a second time."""

    reason: str
    missed: int | None
    """The number of events; None if it is not known."""


class Closed(NamedTuple):
    """The last item of a stream."""

    reason: str


StreamItem = Item | EndOfStored | Gap | Closed


class Reader(Protocol):
    """Reads a stream for a client."""

    @property
    def is_too_slow(self) -> bool:
        """Whether the client is so far behind that the gateway has to disconnect it."""
        ...

    async def next(self) -> list[StreamItem]:
        """Wait for the next items; the last one of a stream is `Closed`."""
        ...


@dataclass(eq=False)
class _Journal:
    """The newest events of one subscription."""

    source: Source
    limits: StreamLimits
    epoch: str = field(default_factory=lambda: secrets.token_hex(6))
    items: deque[Item] = field(default_factory=deque)
    first: int = 1
    """The number of the oldest item."""
    byte_count: int = 0
    listener_count: int = 0
    was_read: bool = False
    """Whether a listener has begun to read it."""
    unused_since: float = 0.0
    """When the last listener left."""
    ready: trio.Event = field(default_factory=trio.Event)
    """Set when the subscription is in force, or has failed."""
    problem: SmartPubSubError | None = None
    """Why the subscription failed."""
    ended: str | None = None
    """Why no more events come."""
    changed: trio.Event = field(default_factory=trio.Event)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)

    @property
    def last(self) -> int:
        return self.first + len(self.items) - 1

    def append(self, event: Event) -> None:
        position = Live(self.epoch, self.last + 1, event.created or datetime.now(UTC))
        item = Item(position, event.id, self.source.encode(event))
        self.items.append(item)
        self.byte_count += len(item.json)
        while len(self.items) > 1 and (
            len(self.items) > self.limits.journal_event_count_max
            or self.byte_count > self.limits.journal_bytes_max
        ):
            self.drop_oldest()
        self.wake()

    def drop_oldest(self) -> None:
        self.byte_count -= len(self.items.popleft().json)
        self.first += 1

    def wake(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    def after(self, number: int, count_max: int) -> list[Item]:
        """The items after a number that is in the journal or directly before it."""
        start = number + 1 - self.first
        stop = min(len(self.items), start + count_max)
        found: list[Item] = []
        byte_count = 0
        for index in range(start, stop):
            found.append(self.items[index])
            byte_count += len(found[-1].json)
            if byte_count >= BATCH_BYTES_MAX:
                break
        return found


class Streams:
    """All journals of a gateway."""

    def __init__(self, limits: StreamLimits | None = None) -> None:
        self.limits = limits or StreamLimits()
        self._nursery: trio.Nursery
        self._journals: OrderedDict[str, _Journal] = OrderedDict()
        """The least recently used first."""
        self._reader_count = 0
        self._left = trio.Event()
        self._waits: dict[trio.CancelScope, None] = {}
        """The readers that wait for items."""
        self._end_reason: str | None = None

    @property
    def reader_count(self) -> int:
        """The number of open streams."""
        return self._reader_count

    def pace_s(self) -> float:
        """How long a listener waits between two writes.

        With many listeners this saves writes: a write of several events costs little more than one
        of a single event.
        """
        return min(0.5, self._reader_count / 2_000)

    async def run(self, *, task_status: TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Fill the journals, and end unused ones, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            while True:
                await trio.sleep(self.limits.linger_s / 10)
                oldest = trio.current_time() - self.limits.linger_s
                for journal in list(self._journals.values()):
                    if not journal.listener_count and journal.unused_since < oldest:
                        self._forget(journal)

    async def items_of(self, reader: Reader) -> list[StreamItem]:
        """The next items of a reader; none if a keep-alive is due first."""
        if self._end_reason is None:
            with trio.move_on_after(self.limits.keep_alive_s) as wait:
                self._waits[wait] = None
                try:
                    return await reader.next()
                finally:
                    del self._waits[wait]
        return self._closed()

    def _closed(self) -> list[StreamItem]:
        return [] if self._end_reason is None else [Closed(self._end_reason)]

    async def end(self, reason: str) -> None:
        """Send all readers the reason why their streams end, and wait until they have left."""
        self._end_reason = reason
        for wait in [*self._waits]:
            wait.cancel()
        while self._reader_count:
            await self._left.wait()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Count a reader until the block is left."""
        if self._end_reason is not None:
            raise _busy(self._end_reason)
        if self._reader_count >= self.limits.listener_count_max:
            raise _busy("too many streams are open")
        self._reader_count += 1
        try:
            yield
        finally:
            self._reader_count -= 1
            self._left.set()
            self._left = trio.Event()

    @asynccontextmanager
    async def listen(
        self,
        source: Source,
        *,
        since: str | datetime | None = None,
        last: int | None = None,
        resume: str | None = None,
    ) -> AsyncIterator[Listener]:
        """Open a stream; it begins with history, at a position, or now."""
        position = None if resume is None else read_position(resume)
        first = position.event_id if isinstance(position, Stored) else since
        if first is not None or last is not None:
            source.subscribe(first, last)  # Raises an error before the node subscribes for nothing.
        async with self.reading():
            journal = self._journal(source)
            journal.listener_count += 1
            try:
                await journal.ready.wait()
                if journal.problem is not None:
                    raise journal.problem
                listener = Listener(journal, self.limits)
                async with listener.begun(since=since, last=last, position=position):
                    journal.was_read = True
                    yield listener
            finally:
                journal.listener_count -= 1
                journal.unused_since = trio.current_time()
                if not journal.listener_count and not journal.was_read:
                    # For example, the client has asked for history that the node does not have.
                    self._forget(journal)

    def _journal(self, source: Source) -> _Journal:
        journal = self._journals.get(source.name)
        if journal is None:
            self._make_room()
            journal = self._journals[source.name] = _Journal(source, self.limits)
            self._nursery.start_soon(self._fill, journal)
        self._journals.move_to_end(source.name)
        return journal

    def _make_room(self) -> None:
        if len(self._journals) < self.limits.journal_count_max:
            return
        unused = next((j for j in self._journals.values() if not j.listener_count), None)
        if unused is None:
            raise _busy("too many filters are in use")
        self._forget(unused)

    def _forget(self, journal: _Journal) -> None:
        if self._journals.get(journal.source.name) is journal:
            del self._journals[journal.source.name]
        journal.scope.cancel()

    async def _fill(self, journal: _Journal) -> None:
        journal.ended = "the gateway is closing"
        with journal.scope:
            try:
                async with journal.source.subscribe(None, None) as events:
                    journal.ended = None
                    journal.ready.set()
                    async for event in events:
                        journal.append(event)
                        self._drop_oldest()
                journal.ended = "the node has ended the subscription"
            except SmartPubSubError as error:
                journal.problem, journal.ended = error, str(error)
            finally:
                journal.ended = journal.ended or "the gateway is closing"
                self._forget(journal)
                journal.ready.set()
                journal.wake()

    def _drop_oldest(self) -> None:
        journals = self._journals.values()
        while sum(journal.byte_count for journal in journals) > self.limits.all_bytes_max:
            largest = max(journals, key=lambda journal: journal.byte_count)
            if len(largest.items) <= 1:
                return
            largest.drop_oldest()


def _busy(problem: str) -> ProblemError:
    return ProblemError(503, f"{problem}; try later", headers={"Retry-After": "5"})


class Listener:
    """One reader of a stream."""

    def __init__(self, journal: _Journal, limits: StreamLimits) -> None:
        self._journal = journal
        self._limits = limits
        self._number = journal.last
        """The number of the last item that the listener got."""
        self._lag_max = sys.maxsize
        self._history: EventStream | None = None
        self._stored_count = 0
        self._stored_left = 0
        self._end_history = AsyncExitStack()
        self._is_outdated = False
        """Whether the listener resumes at a position that the journal does not have."""
        self._known: BoundedDict[str, None] = BoundedDict(KNOWN_COUNT_MAX)
        """Events of history that may come in the journal too."""

    @property
    def is_too_slow(self) -> bool:
        """Whether the listener is so far behind that the gateway has to disconnect it.

        A listener that resumes begins behind: it may catch up, but not fall back further.
        """
        lag = self._journal.last - self._number
        self._lag_max = min(self._lag_max, lag + self._limits.lag_count_max)
        return lag > self._lag_max

    @asynccontextmanager
    async def begun(
        self, *, since: str | datetime | None, last: int | None, position: Live | Stored | None
    ) -> AsyncIterator[None]:
        """Find the place where the stream begins; read history if it begins there."""
        if isinstance(position, Stored):
            since, last = position.event_id, None
        elif isinstance(position, Live) and position.epoch == self._journal.epoch:
            since, last = None, None
            self._number = min(position.number, self._journal.last)
        elif isinstance(position, Live):
            since, last = position.at - CLOCK_SKEW, None
            self._is_outdated = True
        async with self._end_history:
            if since is not None or last is not None:
                subscription = self._journal.source.subscribe(since, last)
                self._history = await self._end_history.enter_async_context(subscription)
                self._stored_count = self._stored_left = self._history.recalled
            yield

    async def next(self, count_max: int = 256) -> list[StreamItem]:
        """Wait for the next items of the stream; the last one is `Closed`."""
        if self._is_outdated:
            self._is_outdated = False
            return [Gap(OUTDATED, None)]
        if self._history is not None:
            return await self._next_of_history(self._history, count_max)
        journal = self._journal
        while True:
            if self._number < journal.first - 1:
                missed = journal.first - 1 - self._number
                self._number = journal.first - 1
                return [Gap("the node no longer holds these events for this stream", missed)]
            items = journal.after(self._number, count_max)
            self._number += len(items)
            if new := [item for item in items if item.event_id not in self._known]:
                return [*new]
            if items:
                continue
            if journal.ended is not None:
                return [Closed(journal.ended)]
            await journal.changed.wait()

    async def _next_of_history(self, history: EventStream, count_max: int) -> list[StreamItem]:
        source = self._journal.source
        items: list[StreamItem] = []
        byte_count = 0
        for _ in range(min(self._stored_left, count_max)):
            event = await anext(history)
            self._stored_left -= 1
            self._known[event.id] = None
            json = source.encode(event)
            items.append(Item(Stored(event.id), event.id, json))
            byte_count += len(json)
            if byte_count >= BATCH_BYTES_MAX:
                break
        if not self._stored_left:
            items.append(EndOfStored(self._stored_count, source.is_whole(history)))
            self._history = None
            await self._end_history.aclose()
        return items
