"""What a node does for programs that read and publish in batches, such as Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from smartpubsub.node.api.event_records import Content
from smartpubsub.node.api.journals import Journals
from smartpubsub.node.api.past_events import PastEvents
from smartpubsub.node.api.publishing import Publishing
from smartpubsub.node.api.topic import Topic
from smartpubsub.node.api.topic_ranges import TopicRanges
from smartpubsub.node.api.topics import content_in
from smartpubsub.node.errors import NodeError
from smartpubsub.predicates import Predicate

NewEvent: TypeAlias = tuple[Predicate | None, bytes, str]
"""A predicate, unless the event is published in a topic; a payload, and a key."""


class Batches(NamedTuple):
    """Reads and publishes many events at a time."""

    journals: Journals
    past_events: PastEvents
    topic_ranges: TopicRanges
    publishing: Publishing
    check: Callable[[Predicate], Predicate]
    """Raises an error for a predicate beyond the node's limit."""

    async def publish(
        self, events: Sequence[NewEvent], topic: Topic | None, deadline_s: float
    ) -> list[str]:
        """Publish events by keys, with predicates or in a topic, in this order; their ids."""
        contents: list[tuple[Content, str]] = []
        for predicate, payload, key in events:
            if topic is not None and predicate is None:
                contents.append((content_in(topic.cid, payload), key))
            elif predicate is not None and topic is None:
                contents.append((Content(self.check(predicate), payload), key))
            else:
                raise NodeError("an event has a predicate, unless it is published in a topic")
        return [str(id) for id in await self.publishing.send_all(contents, deadline_s)]
