"""Events as an application gets them, and the buffer in which they wait for it."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from types import TracebackType
from typing import Protocol

import trio

from smartpubsub.node.errors import NodeClosedError, NodeError, OverflowedError
from smartpubsub.node.identity import peer_text
from smartpubsub.node.signing import is_signature
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.baselines.rpc_wire import signing_bytes
from smartpubsub.protocols.blocks import cid_of, cid_text
from smartpubsub.protocols.event_blocks import event_block, read_event_block
from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.pubsub import Delivery, SubscriptionState
from smartpubsub.protocols.scoutsubs.replay import CaughtUp, Past

BUFFER_COUNT_MAX = 1_000
SEEN_COUNT_MAX = 100_000
"""How many events are remembered of a subscription to which they come by two protocols."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Overflow(Enum):
    """What happens to an event for which a subscription's buffer has no room."""

    BLOCK = "block"
    """The node stops until there is room: it takes nothing in, and others notice."""
    DROP_OLDEST = "drop-oldest"
    """The event that has waited longest is dropped, and counted."""
    ERROR = "error"
    """The subscription ends, and whoever reads it gets an error after what is in the buffer."""


@dataclass(frozen=True)
class Event:
    """An event that an application has subscribed to."""

    id: str
    publisher: str
    predicate: Predicate
    payload: bytes
    hops: int
    created: datetime | None = field(default=None, kw_only=True)
    """When it was published, by its publisher's clock; None if that is not said."""
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

    @classmethod
    def from_block(cls, block: bytes) -> Event:
        """The event that a block is of, if its publisher has signed it."""
        event = read_event_block(block)
        id, predicate, payload, signature, _, created_us = event
        signed = signing_bytes(id, predicate, payload, created_us)
        if not is_signature(id.publisher, signed, signature):
            raise NodeError("the block's event is not signed by its publisher")
        return cls.of(Delivery(event, (), 0))

    def to_block(self) -> bytes:
        """All of it as a block of dag-cbor, which anybody can verify: `Event.from_block`."""
        if self._signed is None or self.created is None:
            raise NodeError("an event that does not say when it was published is no block")
        return event_block(self._signed)

    @property
    def cid(self) -> str | None:
        """The content id of that block; None for an event that says no time."""
        return None if self.created is None else cid_text(cid_of(self.to_block()))


def time_of(at_us: int) -> datetime:
    """A time that is given in microseconds."""
    return _EPOCH + timedelta(microseconds=at_us)


class Desk(Protocol):
    """Whoever begins and ends subscriptions."""

    async def open(self, subscription: Subscription) -> None:
        """Begin a subscription, and wait until it is in force."""
        ...

    async def end(self, subscription: Subscription) -> None:
        """End a subscription."""
        ...

    def on_room(self) -> None:
        """There is room again for what comes."""
        ...

    def state_of(self, subscription: Subscription) -> SubscriptionState:
        """How far a subscription has come."""
        ...


class Subscription:
    """A wish of an application, and the events that have come for it.

    Use it as a context manager, so that it ends when it is left, and as an asynchronous iterator.
    """

    def __init__(
        self,
        owner: Desk,
        predicate: Predicate,
        *,
        buffer_count_max: int,
        overflow: Overflow,
        past: Past | None = None,
    ) -> None:
        self.predicate = predicate
        self.past = past
        """Which events of before it begins with, if any."""
        self.recalled = 0
        """How many of them there were."""
        self.is_whole = True
        """Whether it is known that nothing is missing of the past that it began with."""
        self.kept_since: datetime | None = None
        """Of when the oldest event is that anybody keeps of those it asked; None if nobody does."""
        self.dropped = 0
        """How many events were dropped because nobody took them."""
        self.number: int | None = None
        self.was_there = False
        """Whether it goes on with one that was kept, or that a node had before it started anew."""
        self._owner = owner
        self._buffer: deque[Event] = deque()
        self._buffer_count_max = buffer_count_max
        self._overflow = overflow
        self._changed = trio.Event()
        self._has_ended = False
        self._problem: NodeError | None = None
        """Why nothing more comes, if that is an error."""
        self._seen: OrderedDict[str, None] | None = None
        self._past: deque[Event] = deque()
        """History, which has been read and so takes its room whether or not it waits here."""
        self._is_catching_up = past is not None

    def share(self) -> None:
        """Events come by more than one protocol from now on; each is to be taken once."""
        if self._seen is None:
            self._seen = OrderedDict.fromkeys(event.id for event in self._buffer)

    async def __aenter__(self) -> Subscription:
        await self._owner.open(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._owner.end(self)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        if self._past:
            return self._past.popleft()
        while not self._buffer:
            if self._problem is not None:
                raise self._problem
            if self._has_ended:
                raise StopAsyncIteration
            self._changed = trio.Event()
            await self._changed.wait()
        event = self._buffer.popleft()
        if self.has_room:
            self._owner.on_room()
        return event

    @property
    def state(self) -> SubscriptionState:
        """How far it has come."""
        return self._owner.state_of(self)

    @property
    def has_room(self) -> bool:
        """Whether another event can come without harm."""
        is_full = len(self._buffer) >= self._buffer_count_max
        return self._overflow is not Overflow.BLOCK or not is_full

    def put(self, event: Event) -> None:
        """An event has come."""
        if self._has_ended or self._problem is not None or self._is_known(event):
            return
        if self._is_catching_up:
            self._past.append(event)
            return
        if len(self._buffer) >= self._buffer_count_max:
            if self._overflow is Overflow.ERROR:
                self.fail(
                    OverflowedError(
                        f"more than {self._buffer_count_max} events waited for {self.predicate};"
                        " take them faster, or let more wait"
                    )
                )
                return
            if self._overflow is Overflow.DROP_OLDEST:
                self._buffer.popleft()
                self.dropped += 1
        self._buffer.append(event)
        self._changed.set()

    def _is_known(self, event: Event) -> bool:
        """Whether an event has come by another protocol already; from now on it has."""
        if self._seen is None:
            return False
        is_known = event.id in self._seen
        self._seen[event.id] = None
        if len(self._seen) > SEEN_COUNT_MAX:
            self._seen.popitem(last=False)
        return is_known

    def caught_up(self, told: CaughtUp, waiting: Iterable[Event]) -> None:
        """It has been given the past, and goes on with what waited for it, each event once."""
        self._seen = OrderedDict.fromkeys(event.id for event in self._past)
        self._is_catching_up = False
        self.recalled = told.given
        self.kept_since = time_of(told.oldest_us) if told.oldest_us else None
        self.is_whole = told.is_whole
        for event in waiting:
            self.put(event)

    def fail(self, problem: NodeError) -> None:
        """Nothing more will come, and whoever reads it gets an error after what is there."""
        self._problem = problem
        self._changed.set()

    def finish(self) -> None:
        """Nothing more will come."""
        self._has_ended = True
        self._changed.set()

    def leave(self) -> list[Event]:
        """Give nothing more to anybody; what has come and was not taken."""
        left = [*self._past, *self._buffer]
        self._past.clear()
        self._buffer.clear()
        self.finish()
        return left


@dataclass(frozen=True)
class Wish:
    """A subscription of a node, whoever takes its events."""

    number: int
    predicate: Predicate
    state: SubscriptionState
    is_taken: bool
    """Whether somebody takes its events; if nobody does, the last of them wait."""
    waiting: int


def must_be_open(is_open: bool) -> None:
    """Complain unless a node is running."""
    if not is_open:
        raise NodeClosedError("the node is not running; use it inside 'async with Node(...)'")
