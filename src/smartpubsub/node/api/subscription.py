"""Subscriptions as an application reads them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TypeVar

from smartpubsub.node.api.choices import (
    ACKNOWLEDGE_S_MAX,
    BUFFER_COUNT_MAX,
    Overflow,
    OverflowName,
    at_least_one,
    choice,
)
from smartpubsub.node.api.events import Entry, Event
from smartpubsub.node.api.listing import Gaps
from smartpubsub.node.api.past import Since, check_one, checked_since
from smartpubsub.node.errors import NotInTimeError
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import event_id_from_text

Stream = TypeVar("Stream", bound="EventStream")


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How a subscription is read; the parameters of `subscribe`, checked."""

    since: str | datetime | None = None
    last: int | None = None
    keep: bool = False
    acknowledges: bool = True
    buffer_count_max: int = BUFFER_COUNT_MAX
    overflow: Overflow = Overflow.DROP_OLDEST
    deadline_s: float = ACKNOWLEDGE_S_MAX


def read_options(
    *,
    since: Since | None = None,
    read_id: Callable[[str], object] = event_id_from_text,
    last: int | None = None,
    keep: bool = False,
    acknowledges: bool = True,
    buffer_count_max: int = BUFFER_COUNT_MAX,
    overflow: Overflow | OverflowName = Overflow.DROP_OLDEST,
    deadline_s: float = ACKNOWLEDGE_S_MAX,
) -> ReadOptions:
    """Check the parameters of a subscription; `read_id` checks the id of an event."""
    check_one(since, last)
    return ReadOptions(
        since=checked_since(since, read_id),
        last=last,
        keep=keep,
        acknowledges=acknowledges,
        buffer_count_max=at_least_one(buffer_count_max, "buffer_count_max"),
        overflow=choice(Overflow, overflow, "overflow"),
        deadline_s=deadline_s,
    )


class EventStream(ABC):
    """A subscription of an application.

    Use it as a context manager, so that it ends when the block is left, and as an asynchronous
    iterator.
    """

    predicate: Predicate
    number: int | None
    """The number that `unsubscribe` takes; None before the subscription is entered."""
    was_there: bool
    """Whether it continues a subscription that was kept, or that a crash left behind."""
    is_kept: bool
    """Whether the subscription outlives this object, and restarts of the node."""
    acknowledges: bool
    """Whether asking for the next event acknowledges the one before it."""
    dropped: int
    """The number of events dropped because the application did not take them."""
    recalled: int
    """The number of events of history."""
    is_whole: bool
    """Whether no event of history is known to be missing."""
    kept_since: datetime | None
    """The time of the oldest event that any replica keeps; None if none keeps any."""

    @abstractmethod
    async def open(self) -> None:
        """Begin, and wait until the subscription is in force; `async with` does this."""

    @abstractmethod
    async def close(self, *, is_done: bool = True) -> None:
        """End the subscription, or leave it if it is kept; `async with` does this.

        With `is_done` the application has dealt with the last event.
        """

    @abstractmethod
    async def next(self, timeout_s: float | None = None) -> Event | None:
        """Wait for the next event; None at the end. TimeoutError if none comes in time."""

    @abstractmethod
    async def taken(self, id: str) -> None:
        """Acknowledge an event, and all before it: they are not delivered again.

        A subscription whose events wait in memory needs no acknowledgement.
        """

    async def __aenter__(self: Stream) -> Stream:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close(is_done=kind is None)

    def __aiter__(self: Stream) -> Stream:
        return self

    async def __anext__(self) -> Event:
        event = await self.next()
        if event is None:
            raise StopAsyncIteration
        return event

    async def get(self, timeout_s: float) -> Event:
        """Wait for the next event; raises `NotInTimeError` if none comes in time."""
        try:
            event = await self.next(timeout_s)
        except TimeoutError:
            event = None
        if event is None:
            raise NotInTimeError(f"no event for {self.predicate} within {timeout_s:g} seconds")
        return event


class TopicStream(EventStream):
    """A subscription to a topic."""

    gaps: Gaps
    """The missing parts of the history that it begins with."""

    @abstractmethod
    async def next(self, timeout_s: float | None = None) -> Entry | None:
        """Wait for the next event; None at the end. TimeoutError if none comes in time."""

    async def __anext__(self) -> Entry:
        entry = await self.next()
        if entry is None:
            raise StopAsyncIteration
        return entry

    async def get(self, timeout_s: float) -> Entry:
        """Wait for the next event; raises `NotInTimeError` if none comes in time."""
        event = await super().get(timeout_s)
        assert isinstance(event, Entry)
        return event
