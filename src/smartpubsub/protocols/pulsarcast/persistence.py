"""Stored state: descriptors, events, the state of each topic, requests, and subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from smartpubsub.protocols.blocks import CID_BYTES, Cid, encode
from smartpubsub.protocols.pulsarcast.events import (
    Draft,
    TopicEvent,
    draft_block,
    read_draft,
    read_event,
)
from smartpubsub.protocols.pulsarcast.fields import RefusalError, stored_value_in
from smartpubsub.protocols.pulsarcast.log import Log
from smartpubsub.protocols.pulsarcast.messages import Part
from smartpubsub.protocols.pulsarcast.permissions import Permissions
from smartpubsub.protocols.pulsarcast.topics import Topic, read_topic
from smartpubsub.protocols.runtime.outbox import Outbox

_TOPIC = b"topic/"
_EVENT = b"event/"
_STATE = b"room/"
_REQUEST = b"request/"
_KEPT = b"kept/"
_WAITING = b"waiting/"
_NUMBER_BYTES = 8

T = TypeVar("T")


class StoredState(NamedTuple):
    """Everything that a node had stored before a restart."""

    topics: dict[Cid, Topic]
    records: list[dict[str, Any]]
    """The state of each topic, as `store_state` wrote it."""
    events: list[TopicEvent]
    """In the order of all topics, so that parents come first."""
    requests: list[Draft]
    """The requests without an answer, in the order in which they were made."""
    kept: list[tuple[int, Cid]]
    """The durable subscriptions and their topics."""
    waiting: list[tuple[int, Cid]]
    """The events that were delivered to them and not taken."""


class TopicPersistence:
    """Writes to storage; `is_keeper` returns whether this node is a keeper of a topic."""

    def __init__(self, outbox: Outbox[Part], is_keeper: Callable[[Cid], bool]) -> None:
        self._store = outbox.store
        self._is_keeper = is_keeper

    def store_topic(self, topic: Topic) -> None:
        """Store a descriptor."""
        self._store(_TOPIC + topic.cid, topic.block)

    def store_event(self, event: TopicEvent) -> None:
        """Store an event."""
        self._store(_EVENT + event.cid, event.block)

    def forget_event(self, event: TopicEvent) -> None:
        """Remove an event."""
        self._store(_EVENT + event.cid, None)

    def store_state(self, id: Cid, newest: Topic, versions: Iterable[Cid], log: Log) -> None:
        """Store the state of a topic besides its descriptors and events."""
        record: dict[str, Any] = {
            "room": id,
            "topic": newest.cid,
            "versions": list(versions),
            "keeper": self._is_keeper(id),
            **log.record(),
        }
        self._store(_STATE + id, encode(record))

    def forget_state(self, id: Cid) -> None:
        """Remove the state of a topic."""
        self._store(_STATE + id, None)

    def forget_topic(self, cid: Cid) -> None:
        """Remove a descriptor."""
        self._store(_TOPIC + cid, None)

    def store_request(self, draft: Draft) -> None:
        """Store a request to publish until it is answered."""
        self._store(_request_key(draft), draft_block(draft))

    def forget_request(self, draft: Draft) -> None:
        """Remove a request that was answered."""
        self._store(_request_key(draft), None)

    def store_kept(self, number: int, topic: Cid) -> None:
        """Store a durable subscription."""
        self._store(_KEPT + _number(number), topic)

    def forget_kept(self, number: int, waiting: Iterable[Cid]) -> None:
        """Remove a durable subscription and the events that wait for it."""
        self._store(_KEPT + _number(number), None)
        self.forget_waiting(number, waiting)

    def store_waiting(self, number: int, event: Cid) -> None:
        """Store that an event was delivered to a durable subscription and not taken."""
        self._store(_WAITING + _number(number) + event, b"1")

    def forget_waiting(self, number: int, events: Iterable[Cid]) -> None:
        """Remove events that a durable subscription has taken."""
        for event in events:
            self._store(_WAITING + _number(number) + event, None)


def read_stored(
    name: str, values: Sequence[tuple[bytes, bytes]], permissions: Permissions
) -> StoredState:
    """Read the values that `TopicPersistence` wrote; count damaged values as refused."""
    prefix = len(name) + 1
    stored = [(key[prefix:], value) for key, value in values]

    def read(kind: bytes, parse: Callable[[bytes], T]) -> list[T]:
        found = []
        for key, value in stored:
            if key.startswith(kind):
                try:
                    found.append(parse(value))
                except RefusalError as error:
                    permissions.refuse(error)
        return found

    kept, waiting = [], []
    for key, value in stored:
        if key.startswith(_KEPT):
            kept.append((int.from_bytes(key[len(_KEPT) :], "big"), value))
        elif key.startswith(_WAITING):
            number = int.from_bytes(key[len(_WAITING) : -CID_BYTES], "big")
            waiting.append((number, key[-CID_BYTES:]))
    return StoredState(
        {topic.cid: topic for topic in read(_TOPIC, read_topic)},
        read(_STATE, stored_value_in),
        sorted(read(_EVENT, read_event), key=lambda event: event.place),
        read(_REQUEST, read_draft),
        kept,
        waiting,
    )


def _request_key(draft: Draft) -> bytes:
    """Return a key that sorts requests in the order in which they were made."""
    _, start, number = draft.id
    return _REQUEST + _number(start) + _number(number)


def _number(number: int) -> bytes:
    return number.to_bytes(_NUMBER_BYTES, "big")
