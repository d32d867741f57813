"""Subscriptions to topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from smartpubsub.node.api.arrivals import Subscription
from smartpubsub.node.api.choices import Overflow
from smartpubsub.node.api.events import Entry, Event
from smartpubsub.node.api.listing import Gaps
from smartpubsub.node.api.payloads import Serializer
from smartpubsub.node.api.subscription import TopicStream
from smartpubsub.node.api.topic_events import entry_of
from smartpubsub.protocols.blocks import Cid, cid_from_text, cid_text
from smartpubsub.protocols.pulsarcast.events import predicate_of
from smartpubsub.protocols.pulsarcast.history import Wanted as WantedHistory

if TYPE_CHECKING:
    from smartpubsub.node.api.topic_subscribing import TopicSubscribing


class TopicSubscription(Subscription, TopicStream):
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
        serializer: Serializer,
    ) -> None:
        super().__init__(
            owner,
            predicate_of(topic),
            buffer_count_max=buffer_count_max,
            overflow=overflow,
            serializer=serializer,
        )
        self.topic = topic
        self.history = history
        self.gaps = Gaps()
        self._held: list[Entry] | None = None if history is None else []
        """Events that came while history is read."""

    async def next(self, timeout_s: float | None = None) -> Entry | None:
        """Wait for the next event; None at the end."""
        event = await super().next(timeout_s)
        assert event is None or isinstance(event, Entry)
        return event

    def put(self, event: Event) -> Event | None:
        """Ignore the event: it also comes as an `Entry`."""

    def take(self, entry: Entry, /) -> Event | None:
        """Queue an event that has come; if the queue is full, return the one that it drops."""
        if self._held is None:
            return super().put(entry)
        self._held.append(entry)
        return None

    def begin_with(self, history: Sequence[Entry]) -> None:
        """Begin with history, then the events that came meanwhile, each once."""
        held, self._held = self._held or [], None
        self._past.extend({entry.id: entry for entry in (*history, *held)}.values())
        self.recalled = len(self._past)


class KeptSubscription(TopicSubscription):
    """A subscription whose events wait in the node's storage until the reader acknowledges them.

    Asking for the next event acknowledges the one before it, and so does leaving the block without
    an error.
    """

    def __init__(
        self,
        owner: TopicSubscribing,
        topic: Cid,
        history: WantedHistory | None,
        *,
        acknowledges: bool = True,
        ends: bool = False,
        serializer: Serializer,
    ) -> None:
        super().__init__(
            owner,
            topic,
            history,
            buffer_count_max=1,
            overflow=Overflow.DROP_OLDEST,
            serializer=serializer,
        )
        self.is_kept = True
        self.acknowledges = acknowledges
        self.ends = ends
        self._topics = owner
        self._given: dict[Cid, None] = {}
        """The events that the reader has and has not acknowledged."""

    async def _next(self) -> Event | None:
        if self.acknowledges:
            await self._take_given()
        if self._past:
            return self._past.popleft()
        while self._has_ended or (event := self._topics.next_waiting(self, self._given)) is None:
            if self._has_ended:
                return None
            self._changed = trio.Event()
            await self._changed.wait()
        dropped, self.dropped = self.dropped, self._topics.dropped_of(self)
        self._given[event.cid] = None
        return replace(
            entry_of(event, serializer=self._serializer), dropped_before=self.dropped - dropped
        )

    async def _take_given(self) -> None:
        if self._given:
            await self.taken(cid_text([*self._given][-1]))

    async def taken(self, id: str) -> None:
        """Acknowledge an event, and all before it."""
        event = cid_from_text(id)
        await self._topics.acknowledge(self.number, event)
        while (
            event in self._given
        ):  # Not earlier: an event that still waits would be delivered again.
            del self._given[next(iter(self._given))]

    def take(self, _entry: Entry, /) -> None:
        """Wake the reader: an event waits in the storage."""
        self._changed.set()

    def begin_with(self, history: Sequence[Entry]) -> None:
        """Begin with history, except for events that also wait."""
        waiting = self._topics.waiting_ids(self)
        self._past.extend(entry for entry in history if entry.id not in waiting)
        self.recalled = len(self._past)
