"""Journals: subscriptions whose events several programs read by sequence number.

A journal outlives its readers and restarts of the node. Its events wait on disk until a program
acknowledges them; the limits of kept subscriptions bound it.
"""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import NamedTuple

from smartpubsub.node.api.arrivals import Subscription, must_be_open
from smartpubsub.node.api.choices import BUFFER_COUNT_MAX, Overflow
from smartpubsub.node.api.payloads import JSON
from smartpubsub.node.api.subscribing import Subscribing, past_of, stores
from smartpubsub.node.engine import Engine
from smartpubsub.node.errors import NoSubscriptionError
from smartpubsub.node.storage.kept import EPOCH_BYTES, KeptQueue
from smartpubsub.predicates import Predicate

PAGE_BYTES = 2 << 20


class JournalState(NamedTuple):
    """Which events of a journal can be read: from `first` to before `end`."""

    number: int
    epoch: str
    first: int
    end: int
    is_whole: bool = True
    """Whether no event of the history that it begins with is known to be missing."""


class JournalPage(NamedTuple):
    """Events of a journal, the first of which has the sequence number `first`."""

    first: int
    end: int
    """The sequence number after the last event of the journal."""
    events: list[bytes]
    """The events, as the node stores them."""


class Journals:
    """The journals of a node."""

    def __init__(self, engine: Engine, subscribing: Subscribing) -> None:
        self._engine = engine
        self._subscribing = subscribing

    async def open(self, predicate: Predicate, since: str | datetime | None) -> JournalState:
        """Make a journal, which begins with history if `since` is given."""
        must_be_open(self._engine.is_running)
        subscription = Subscription(
            self._subscribing,
            predicate,
            buffer_count_max=BUFFER_COUNT_MAX,
            overflow=Overflow.DROP_OLDEST,
            past=past_of(since, None),
            keep=True,
            acknowledges=False,
            serializer=JSON,
            epoch=secrets.token_bytes(EPOCH_BYTES),
        )
        async with subscription:
            number = subscription.number
        assert number is not None
        queue = self._engine.queues.get(number)
        assert queue is not None
        return _state(queue)._replace(is_whole=subscription.is_whole)

    def state(self, number: int, epoch: str) -> JournalState:
        """Report which events can be read."""
        return _state(self._journal(number, epoch))

    def page(self, number: int, epoch: str, first: int, end: int) -> JournalPage:
        """Read events from a sequence number to another, up to a page, without dropped ones."""
        queue = self._journal(number, epoch)
        first = max(first, queue.first)
        return JournalPage(first, queue.end, queue.stored(first, end, PAGE_BYTES))

    async def take(self, number: int, epoch: str, end: int) -> None:
        """Acknowledge the events before a sequence number."""
        queue = self._journal(number, epoch)
        await self._engine.host.do(lambda now: stores(queue.take_to(end - 1, now)))

    def _journal(self, number: int, epoch: str) -> KeptQueue:
        must_be_open(self._engine.is_running)
        queue = self._engine.queues.get(number)
        if queue is None or not epoch or queue.epoch.hex() != epoch:
            raise NoSubscriptionError(
                f"this node has no journal {number} of the epoch {epoch!r}; it was ended, or the"
                " node has another data folder"
            )
        return queue


def _state(queue: KeptQueue) -> JournalState:
    return JournalState(queue.number, queue.epoch.hex(), queue.first, queue.end)
