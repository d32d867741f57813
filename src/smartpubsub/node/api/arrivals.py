"""Events as an application gets them, and the subscriptions in which they wait."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from types import TracebackType
from typing import Protocol

import trio

from smartpubsub.node.errors import NodeClosedError, NodeError, OverflowedError
from smartpubsub.node.identity import peer_text
from smartpubsub.node.signing import is_signature
from smartpubsub.node.storage.kept import SEEN_COUNT_MAX, KeptQueue
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import cid_of, cid_text
from smartpubsub.protocols.event_blocks import event_block, read_event_block
from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.pubsub import Delivery, SubscriptionState
from smartpubsub.protocols.scoutsubs.replay import CaughtUp, Past

BUFFER_COUNT_MAX = 1_000
"""Events that wait in memory for one subscription, unless the application says otherwise."""

_log = logging.getLogger(__name__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Overflow(Enum):
    """What happens to the events of a subscription that is not read fast enough.

    Other subscriptions, publishing and other nodes are not affected. A subscription that is kept
    always has its events on disk.
    """

    DROP_OLDEST = "drop-oldest"
    """Drop the oldest event in memory, and count it: `Event.dropped_before`."""
    ERROR = "error"
    """Drop the oldest event, and raise `OverflowedError` where it was; the reader can go on."""
    BLOCK = "block"
    """Withhold acknowledgements: an event stays on disk until the reader asks for the next one.

    Beyond the limits of kept subscriptions, the oldest are dropped.
    """


@dataclass(frozen=True)
class Event:
    """An event, as a subscription delivers it."""

    id: str
    publisher: str
    predicate: Predicate
    payload: bytes
    hops: int
    created: datetime | None = field(default=None, kw_only=True)
    """When it was published, by its publisher's clock; None if the event does not say."""
    dropped_before: int = field(default=0, kw_only=True, compare=False)
    """The number of events that the subscription dropped immediately before this one."""
    _signed: Publication | None = field(default=None, kw_only=True, repr=False, compare=False)

    @classmethod
    def of(cls, delivery: Delivery) -> Event:
        """The event of a delivery."""
        event = delivery.event
        return cls(
            str(event.id),
            peer_text(event.id.publisher),
            event.predicate,
            event.payload,
            delivery.hops,
            created=time_of(event.created_us) if event.created_us else None,
            _signed=event,
        )

    @property
    def delivery(self) -> Delivery:
        """The event, as the protocol has delivered it."""
        assert self._signed is not None
        return Delivery(self._signed, (), self.hops)

    @classmethod
    def from_block(cls, block: bytes) -> Event:
        """Read a block, and verify the publisher's signature."""
        event = read_event_block(block)
        if not is_signature(event.id.publisher, event.signed_bytes, event.signature):
            raise NodeError("the block's event is not signed by its publisher")
        return cls.of(Delivery(event, (), 0))

    def to_block(self) -> bytes:
        """Write the event as a dag-cbor block, which `Event.from_block` verifies."""
        if self._signed is None or self.created is None:
            raise NodeError("an event without a time of publication cannot be written as a block")
        return event_block(self._signed)

    @property
    def cid(self) -> str | None:
        """The content id of that block; None for an event without a time."""
        return None if self.created is None else cid_text(cid_of(self.to_block()))


def time_of(at_us: int) -> datetime:
    """Convert microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=at_us)


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


class Subscription:
    """A subscription of an application, and the events that wait for it.

    Use it as a context manager, so that it ends when the block is left, and as an asynchronous
    iterator. Events wait in memory (`drop-oldest`, `error`), or on disk (`keep`, `block`).
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
    ) -> None:
        self.predicate = predicate
        self.past = past
        """The history that the subscription begins with, if any."""
        self.recalled = 0
        """The number of events of history."""
        self.is_whole = True
        """Whether no event of history is known to be missing."""
        self.kept_since: datetime | None = None
        """The time of the oldest event that any replica keeps; None if none keeps any."""
        self.dropped = 0
        """The number of events dropped because the application did not take them."""
        self.number: int | None = None
        self.was_there = False
        """Whether it continues a subscription that was kept, or that a crash left behind."""
        self.is_kept = keep
        """Whether the subscription outlives this object, and restarts of the node."""
        self.waits_on_disk = keep or overflow is Overflow.BLOCK
        self.acknowledges = acknowledges
        """Whether asking for the next event acknowledges the one before it."""
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
        """Take each event once although it comes by two protocols."""
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

    async def __aenter__(self) -> Subscription:
        await self._owner.open(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self.acknowledges:
            await self._take_given()
        await self._owner.end(self)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
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
                raise StopAsyncIteration
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
        event = replace(Event.of(delivery), dropped_before=dropped_before)
        self._unacknowledged[event.id] = None
        while len(self._unacknowledged) > len(self._queue):  # A limit has dropped the others.
            del self._unacknowledged[next(iter(self._unacknowledged))]
        return event

    async def _take_given(self) -> None:
        if self._unacknowledged:
            await self.taken(next(reversed(self._unacknowledged)))

    async def taken(self, id: str) -> None:
        """Acknowledge an event, and all before it: they are not delivered again.

        A subscription whose events wait in memory needs no acknowledgement.
        """
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

    def put(self, event: Event) -> None:
        """Queue an event in memory; if the queue is full, drop its oldest event."""
        if self._has_ended or self._problem is not None or self._is_known(event):
            return
        if self._is_catching_up:
            self._past.append(event)
            return
        if len(self._buffer) >= self._buffer_count_max:
            self._buffer.popleft()
            self._gap += 1
            self.dropped += 1
            if self.dropped == 1:
                self._log_overflow()
        self._buffer.append(event)
        self._changed.set()

    def _log_overflow(self) -> None:
        told = {
            "subscription": self.number,
            "predicate": self.predicate,
            "buffer_count_max": self._buffer_count_max,
        }
        problem = "a subscription is not read fast enough, and drops its oldest events"
        _log.warning(problem, extra={"fields": told})

    def on_stored(self, id: str) -> None:
        """Wake the reader: an event is on disk."""
        if self._queue is not None:
            self._queue.show(id)
        self._changed.set()

    def _is_known(self, event: Event) -> bool:
        """Remember an event that may come by two protocols; tell whether it has come before."""
        if self._seen is None:
            return False
        is_known = event.id in self._seen
        self._seen[event.id] = None
        if len(self._seen) > SEEN_COUNT_MAX:
            self._seen.popitem(last=False)
        return is_known

    def caught_up(self, told: CaughtUp, waiting: Iterable[Event]) -> None:
        """End history; the events that waited before follow it, each once."""
        self._seen = OrderedDict.fromkeys(event.id for event in self._past)
        self._is_catching_up = False
        self.recalled = told.given
        self.kept_since = time_of(told.oldest_us) if told.oldest_us else None
        self.is_whole = told.is_whole
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


@dataclass(frozen=True)
class SubscriptionInfo:
    """What a node knows of one of its subscriptions."""

    number: int
    predicate: Predicate
    state: SubscriptionState
    is_taken: bool
    """Whether a reader has it open."""
    waiting: int
    """The number of events that wait for the reader."""
    is_kept: bool = False
    """Whether it outlives its reader, and restarts of the node."""
    dropped: int = 0
    """The number of events dropped because no reader took them."""


def must_be_open(is_open: bool) -> None:
    """Raise an error unless a node is running."""
    if not is_open:
        raise NodeClosedError("the node is not running; use it inside 'async with Node(...)'")
