"""Reading and publishing in batches, for programs such as Spark."""

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
"""A predicate (None in a topic), a payload, and a key."""


class Batches(NamedTuple):
    """Reads and publishes many events at a time."""

    journals: Journals
    past_events: PastEvents
    topic_ranges: TopicRanges
    publishing: Publishing
    check: Callable[[Predicate], Predicate]
    """Checks the node's limit of attributes."""

    async def publish(
        self, events: Sequence[NewEvent], topic: Topic | None, deadline_s: float
    ) -> list[str]:
        """Publish events by keys in this order, with predicates or in a topic; return the ids."""
        contents: list[tuple[Content, str]] = []
        for predicate, payload, key in events:
            if topic is not None and predicate is None:
                contents.append((content_in(topic.cid, payload), key))
            elif predicate is not None and topic is None:
                contents.append((Content(self.check(predicate), payload), key))
            else:
                raise NodeError("an event has a predicate, unless it is published in a topic")
        return [str(id) for id in await self.publishing.send_all(contents, deadline_s)]
