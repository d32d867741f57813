"""Comments on Reddit as a workload: a topic for each subreddit, an event for each comment.

A line describes a topic, or a user with everything that the user wrote. A user that writes in a
topic also subscribes to it. Unknown fields are ignored, because other programs write these files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from smartpubsub.predicates import Predicate, PredicateError
from smartpubsub.workloads.actions import CreateTopic, Publish, Subscribe, Workload
from smartpubsub.workloads.lines import Line, found
from smartpubsub.workloads.timetable import STEP_US, topic_predicate


class _Comment(NamedTuple):
    number: int
    node: int
    topic: str
    payload: bytes


def is_reddit(line: Line) -> bool:
    """Whether a line is one of this format."""
    return "type" in line.fields


def reddit_workload(lines: Iterable[Line]) -> Workload:
    """The workload that the lines of a file describe."""
    reading = _Reading()
    for line in lines:
        reading.read(line)
    return reading.workload()


class _Reading:
    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._predicates: dict[str, Predicate] = {}
        self._authors: dict[str, int] = {}
        self._subscriptions: dict[tuple[int, str], None] = {}
        self._comments: list[_Comment] = []

    def read(self, line: Line) -> None:
        kind = line.fields.get("type")
        if kind not in ("topic", "user"):
            line.fail(f'type is "topic" or "user", {found(line.fields, "type")}')
        node = self._numbers.setdefault(line.node(), len(self._numbers))
        if kind == "topic":
            self._read_topic(line, node)
        else:
            self._read_user(line, node)

    def workload(self) -> Workload:
        comments = sorted(self._comments, key=lambda comment: comment.number)
        # A topic without a line of its own is created by the first node that mentions it.
        for node, topic in [*((c.node, c.topic) for c in comments), *self._subscriptions]:
            self._authors.setdefault(topic, node)
        topics = [CreateTopic(0, node, name, False) for name, node in self._authors.items()]
        subscriptions = [Subscribe(0, n, self._predicates[t]) for n, t in self._subscriptions]
        events = [
            Publish(place * STEP_US, c.node, self._predicates[c.topic], c.payload)
            for place, c in enumerate(comments)
        ]
        phases = (tuple(topics), tuple(subscriptions), tuple(events))
        return Workload(names=tuple(self._numbers), phases=tuple(filter(None, phases)))

    def _read_topic(self, line: Line, node: int) -> None:
        name = self._topic(line, line.fields.get("name"))
        if name in self._authors:
            line.fail(f"the topic {name!r} is repeated; leave one of the lines out")
        self._authors[name] = node

    def _read_user(self, line: Line, node: int) -> None:
        wanted = line.fields.get("subscriptions", {})
        if not isinstance(wanted, dict):
            line.fail('subscriptions is an object such as {"science": true}')
        for topic, is_wanted in wanted.items():
            if not isinstance(is_wanted, bool):
                line.fail(f"subscriptions: {topic!r} is true or false, {found(wanted, topic)}")
            if is_wanted:
                self._subscriptions[node, self._topic(line, topic)] = None
        comments = line.fields.get("events", [])
        if not isinstance(comments, list):
            line.fail('events is a list of objects such as {"internalId": 1, "topic": "science"}')
        for place, comment in enumerate(comments):
            if not isinstance(comment, dict):
                line.fail(f"events: number {place} is not an object; write one for each event")
            self._read_comment(line, node, comment)

    def _read_comment(self, line: Line, node: int, comment: dict[str, object]) -> None:
        number = comment.get("internalId")
        if not isinstance(number, int) or isinstance(number, bool):
            line.fail(f"events: internalId is a whole number, {found(comment, 'internalId')}")
        topic = self._topic(line, comment.get("topic"))
        rest = {key: value for key, value in comment.items() if key != "topic"}
        payload = json.dumps(rest, separators=(",", ":"), ensure_ascii=False)
        self._subscriptions[node, topic] = None
        self._comments.append(_Comment(number, node, topic, line.payload("events", payload)))

    def _topic(self, line: Line, name: object) -> str:
        if not isinstance(name, str):
            line.fail("the name of a topic is a text in quotes; this line has none")
        if name not in self._predicates:
            try:
                self._predicates[name] = topic_predicate(name)
            except PredicateError as error:
                line.fail(f"topic: {error}")
        return name
