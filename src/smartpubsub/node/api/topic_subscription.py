"""Subscriptions to topics: with some history before, and kept across restarts if that is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING

import trio

from smartpubsub.node.api.arrivals import Event, Overflow, Subscription
from smartpubsub.node.api.topic_events import Entry, Gaps
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import Cid, cid_from_text, cid_text
from smartpubsub.protocols.pulsarcast.gathering import Wanted as WantedHistory

if TYPE_CHECKING:
    from smartpubsub.node.api.topic_subscribing import TopicSubscribing


class TopicSubscription(Subscription):
    """A subscription to a topic, which may begin with history."""

    ends = True
    """Whether the subscription ends when its block is left."""

    def __init__(
        self,
        owner: TopicSubscribing,
        topic: Cid,
        history: WantedHistory | None,
        *,
        buffer_count_max: int,
        overflow: Overflow,
    ) -> None:
        predicate = Predicate.of({cid_text(topic): True})
        super().__init__(owner, predicate, buffer_count_max=buffer_count_max, overflow=overflow)
        self.topic = topic
        self.history = history
        self.gaps = Gaps()
        """What of the history that it begins with could not be had."""
        self._held: list[Entry] | None = None if history is None else []
        """What has come while history is being read."""

    def put(self, event: Event) -> None:
        """What has come by all protocols' way, and comes here as an entry too."""

    def take(self, entry: Entry, /) -> None:
        """An event has come."""
        if self._held is None:
            super().put(entry)
        else:
            self._held.append(entry)

    def begin_with(self, history: Sequence[Entry]) -> None:
        """History has been read, and what came meanwhile follows, each once."""
        held, self._held = self._held or [], None
        self._past.extend({entry.id: entry for entry in (*history, *held)}.values())


class KeptSubscription(TopicSubscription):
    """A subscription that goes on when nobody takes its events, and after a restart.

    They wait in the node's storage until they are taken: an event is when the next one is asked
    for, or the block that it came in is left without an error.
    """

    def __init__(
        self,
        owner: TopicSubscribing,
        topic: Cid,
        history: WantedHistory | None,
        *,
        acknowledges: bool = True,
        ends: bool = False,
    ) -> None:
        super().__init__(owner, topic, history, buffer_count_max=1, overflow=Overflow.DROP_OLDEST)
        self.is_kept = True
        self.acknowledges = acknowledges
        self.ends = ends
        self._topics = owner
        self._given: dict[Cid, None] = {}
        """What was given and is not said to be taken yet."""

    async def __anext__(self) -> Event:
        if self.acknowledges:
            await self._take_given()
        if self._past:
            return self._past.popleft()
        while self._has_ended or (event := self._topics.next_waiting(self, self._given)) is None:
            if self._has_ended:
                raise StopAsyncIteration
            self._changed = trio.Event()
            await self._changed.wait()
        dropped, self.dropped = self.dropped, self._topics.dropped_of(self)
        self._given[event.cid] = None
        return replace(Entry.of_event(event), dropped_before=self.dropped - dropped)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self.acknowledges:
            await self._take_given()
        await self._topics.end(self)

    async def _take_given(self) -> None:
        if self._given:
            await self.taken(cid_text([*self._given][-1]))

    async def taken(self, id: str) -> None:
        """Have an event, and all that were given before it, wait no more."""
        event = cid_from_text(id)
        await self._topics.take_told(self.number, event)
        while event in self._given:  # Only now, or what still waits would be given again.
            del self._given[next(iter(self._given))]

    def take(self, _entry: Entry, /) -> None:
        """An event has come, which waits where it outlives the node."""
        self._changed.set()

    def begin_with(self, history: Sequence[Entry]) -> None:
        """History has been read; what of it has been told as well comes with what is told."""
        waiting = self._topics.waiting_ids(self)
        self._past.extend(entry for entry in history if entry.id not in waiting)
