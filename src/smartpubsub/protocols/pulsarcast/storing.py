"""What outlives a crash: descriptors, events, and which topics the node is a member of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from smartpubsub.protocols.blocks import CID_BYTES, Cid, encode
from smartpubsub.protocols.pulsarcast.drafts import draft_block, read_draft
from smartpubsub.protocols.pulsarcast.events import Draft, TopicEvent, read_event
from smartpubsub.protocols.pulsarcast.fields import value_in
from smartpubsub.protocols.pulsarcast.office import NAME, Office
from smartpubsub.protocols.pulsarcast.refusals import RefusalError
from smartpubsub.protocols.pulsarcast.room import Room, new_room
from smartpubsub.protocols.pulsarcast.settings import Retention
from smartpubsub.protocols.pulsarcast.topics import Topic, read_topic
from smartpubsub.seam import Store

STORED = NAME.encode() + b"/"
_TOPIC = STORED + b"topic/"
_EVENT = STORED + b"event/"
_ROOM = STORED + b"room/"
_REQUEST = STORED + b"request/"
_KEPT = STORED + b"kept/"
_WAITING = STORED + b"waiting/"
_NUMBER_BYTES = 8

T = TypeVar("T")


class Storing:
    """Keeps a node's rooms in its storage."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self.requests: list[Draft] = []
        """What had no answer before the restart, in order."""
        self.kept: list[tuple[int, Cid]] = []
        """The subscriptions of before the restart, and their topics."""
        self.waiting: list[tuple[int, Cid]] = []
        """What was told to them and not taken."""
        self.event_bytes = 0
        """How much all events take that are kept."""

    def store_topic(self, topic: Topic) -> None:
        """Keep a descriptor."""
        self._office.do(Store(_TOPIC + topic.cid, topic.block))

    def store_event(self, event: TopicEvent) -> None:
        """Keep an event."""
        self.event_bytes += len(event.block)
        self._office.do(Store(_EVENT + event.cid, event.block))

    def store_room(self, room: Room) -> None:
        """Keep what has changed about a room."""
        record: dict[str, Any] = {
            "room": room.id,
            "topic": room.topic.cid,
            "versions": list(room.versions),
            "before": list(room.log.before),
            "heads": [[cid, height] for cid, height in room.log.heads.items()],
            "floor": room.log.floor_us,
            "horizon": list(room.log.horizon),
            "gone": list(room.log.gone),
            "new": room.is_new,
            "all": room.has_all,
            "keeper": room.keeper_until_us > self._office.now,
            "pinned": room.is_pinned,
        }
        self._office.do(Store(_ROOM + room.id, encode(record)))

    def store_request(self, draft: Draft) -> None:
        """Keep something that somebody else is asked to publish."""
        self._office.do(Store(_request_key(draft), draft_block(draft)))

    def forget_request(self, draft: Draft) -> None:
        """It is published, or will not be."""
        self._office.do(Store(_request_key(draft), None))

    def store_kept(self, number: int, topic: Cid) -> None:
        """Keep a subscription."""
        self._office.do(Store(_KEPT + _number(number), topic))

    def forget_kept(self, number: int, waiting: Iterable[Cid]) -> None:
        """Keep a subscription no more, nor what waits for it."""
        self._office.do(Store(_KEPT + _number(number), None))
        self.forget_waiting(number, waiting)

    def store_waiting(self, number: int, event: Cid) -> None:
        """Keep that an event was told to a subscription and not taken yet."""
        self._office.do(Store(_WAITING + _number(number) + event, b"1"))

    def forget_waiting(self, number: int, events: Iterable[Cid]) -> None:
        """They were taken."""
        for event in events:
            self._office.do(Store(_WAITING + _number(number) + event, None))

    def forget_room(self, room: Room) -> None:
        """Keep nothing of a topic any more."""
        for cid in room.versions:
            self._office.do(Store(_TOPIC + cid, None))
        self._forget(room.log.events.values())
        self._office.do(Store(_ROOM + room.id, None))

    def let_go(self, room: Room) -> None:
        """Forget the oldest events of a topic that has too many."""
        if room.is_pinned:
            return
        self._let_go(room, self._office.settings.retention)

    def _let_go(self, room: Room, retention: Retention) -> None:
        gone = room.log.let_go(retention, self._office.now)
        if gone:
            self._forget(gone)
            self._office.subscribing.let_go(room, gone)
            self.store_room(room)

    def _forget(self, events: Iterable[TopicEvent]) -> None:
        for event in events:
            self.event_bytes -= len(event.block)
            self._office.do(Store(_EVENT + event.cid, None))

    def has_room_for(self, event: TopicEvent) -> bool:
        """Whether an event can be kept, for which the largest topic may let its oldest go."""
        settings = self._office.settings
        needed = self.event_bytes + len(event.block) - settings.stored_bytes_max
        while needed > 0:
            rooms = [room for room in self._office.rooms.values() if not room.is_pinned]
            largest = max(rooms, key=lambda room: room.log.bytes, default=None)
            if largest is None or not largest.log.bytes:
                return False
            bytes_max = max(0, largest.log.bytes - max(needed, largest.log.bytes // 16))
            self._let_go(largest, replace(settings.retention, byte_count_max=bytes_max))
            needed = self.event_bytes + len(event.block) - settings.stored_bytes_max
        return True

    # --- loading ---

    def load(self, values: Sequence[tuple[bytes, bytes]]) -> None:
        """Have back what was kept."""
        topics = {topic.cid: topic for topic in self._read(values, _TOPIC, read_topic)}
        for record in self._read(values, _ROOM, value_in):
            self._load_room(record["room"], record, topics)
        events = self._read(values, _EVENT, read_event)
        for event in sorted(events, key=lambda event: event.place):
            room = self._office.room_of.get(event.topic)
            if room is not None:
                room.log.add(event)
                self.event_bytes += len(event.block)
        for room in self._office.rooms.values():
            self._office.catching_up.look_again(room)
            self._office.backfilling.look_again(room)
        self.requests = self._read(values, _REQUEST, read_draft)
        for key, value in values:
            if key.startswith(_KEPT):
                self.kept.append((int.from_bytes(key[len(_KEPT) :], "big"), value))
            elif key.startswith(_WAITING):
                number = int.from_bytes(key[len(_WAITING) : -CID_BYTES], "big")
                self.waiting.append((number, key[-CID_BYTES:]))

    def _read(
        self, values: Sequence[tuple[bytes, bytes]], prefix: bytes, read: Callable[[bytes], T]
    ) -> list[T]:
        found = []
        for key, value in values:
            if key.startswith(prefix):
                try:
                    found.append(read(value))
                except RefusalError as error:  # Somebody has changed what was stored.
                    self._office.refuse(error)
        return found

    def _load_room(self, id: Cid, record: dict[str, Any], topics: dict[Cid, Topic]) -> None:
        office = self._office
        meta, topic = topics.get(id), topics.get(record["topic"])
        if meta is None or topic is None:
            office.refused["incomplete"] += 1
            return
        room = new_room(topic, meta, office.own.key)
        for cid in record["versions"]:
            if cid in topics:
                room.add_version(topics[cid])
        room.is_new, room.has_all = record["new"], record["all"]
        room.is_pinned = record["pinned"]
        if record["keeper"]:
            room.keeper_until_us = office.now + office.settings.lease_us
        # Somebody may want it; if nobody does, the node leaves when it has its place.
        room.wanted_until_us = office.now + office.settings.lease_us
        before = dict.fromkeys(record["before"])
        heads = [(cid, height) for cid, height in record["heads"] if cid in before]
        room.log.start_at(heads, record["floor"])
        room.log.before |= before
        room.log.horizon = tuple(record["horizon"])
        room.log.note_gone(record.get("gone", ()))
        office.index(room)


def _request_key(draft: Draft) -> bytes:
    """Keys in the order in which the requests were made."""
    _, start, number = draft.id
    return _REQUEST + _number(start) + _number(number)


def _number(number: int) -> bytes:
    return number.to_bytes(_NUMBER_BYTES, "big")
