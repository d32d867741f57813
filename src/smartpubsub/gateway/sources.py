"""The sources of streams: the events that match a filter, or the events of a topic."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime

from smartpubsub.gateway.cloudevents import from_entry, from_event
from smartpubsub.node.api.events import Entry, Event
from smartpubsub.node.api.node import Node
from smartpubsub.node.api.subscription import EventStream, TopicStream
from smartpubsub.predicates import Predicate

BUFFER_COUNT_MAX = 20_000
"""Events that wait in memory until the gateway has written them to a journal."""


@dataclass(frozen=True)
class FilterSource:
    """The events that match a predicate."""

    node: Node
    predicate: Predicate

    @property
    def name(self) -> str:
        """The predicate in its canonical form."""
        return f"filter {self.predicate}"

    def subscribe(
        self, since: str | datetime | None, last: int | None
    ) -> AbstractAsyncContextManager[EventStream]:
        """Subscribe."""
        return self.node.subscribe(
            self.predicate, since=since, last=last, buffer_count_max=BUFFER_COUNT_MAX
        )

    def is_whole(self, subscription: EventStream) -> bool:
        """Whether no event of history is known to be missing."""
        return subscription.is_whole

    def encode(self, event: Event) -> bytes:
        """Write an event."""
        return from_event(event)


@dataclass(frozen=True)
class TopicSource:
    """The events of a topic."""

    node: Node
    topic: str

    @property
    def name(self) -> str:
        """The topic's content id."""
        return f"topic {self.topic}"

    def subscribe(
        self, since: str | datetime | None, last: int | None
    ) -> AbstractAsyncContextManager[EventStream]:
        """Subscribe."""
        return self.node.topic(self.topic).subscribe(
            since=since, last=last, buffer_count_max=BUFFER_COUNT_MAX
        )

    def is_whole(self, subscription: EventStream) -> bool:
        """Whether no event of the topic's history is missing."""
        return not (isinstance(subscription, TopicStream) and subscription.gaps)

    def encode(self, event: Event) -> bytes:
        """Write an event."""
        assert isinstance(event, Entry)
        return from_entry(event, self.topic)
