"""Blocks that come from a file: checked like those that come from others, and kept."""

from __future__ import annotations

from collections.abc import Iterable

from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.checking import check_meta_topic, check_topic
from smartpubsub.protocols.pulsarcast.events import read_event
from smartpubsub.protocols.pulsarcast.office import Office
from smartpubsub.protocols.pulsarcast.refusals import RefusalError
from smartpubsub.protocols.pulsarcast.room import Room, new_room
from smartpubsub.protocols.pulsarcast.topics import Topic, read_topic


class Importing:
    """Takes topics and their events, and pins the topics."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._metas: dict[Cid, Topic] = {}
        """Meta topics whose topics have not come yet."""
        self._changed: dict[Cid, Room] = {}
        """Topics that something has come of."""

    def take(self, blocks: Iterable[bytes]) -> int:
        """Take blocks, descriptors before what is published under them; how many were good."""
        self._changed.clear()
        good = sum(self._take_one(block) for block in blocks)
        for room in self._changed.values():
            self._office.backfilling.look_again(room)  # A file may have a part only.
        return good

    def _take_one(self, block: bytes) -> bool:
        try:
            topic = read_topic(block)
        except RefusalError:
            return self._take_event(block)
        try:
            self._take_topic(topic)
        except RefusalError as error:
            self._office.refuse(error)
            return False
        return True

    def _take_topic(self, topic: Topic) -> None:
        office = self._office
        check_topic(topic, office.signing, office.now + office.settings.skew_us_max)
        if topic.meta is None:
            self._metas[topic.cid] = topic
            return
        room = office.rooms.get(topic.meta)
        if room is None:
            meta = self._metas.get(topic.meta)
            if meta is None or len(office.rooms) >= office.settings.room_count_max:
                office.refused["incomplete"] += 1
                return
            check_meta_topic(meta, topic)
            room = new_room(topic, meta, office.own.key)
            room.is_new = False
            office.storing.store_topic(meta)
        self._keep(room, topic)

    def _keep(self, room: Room, topic: Topic) -> None:
        room.add_version(topic)
        room.is_pinned = True
        self._office.index(room)
        self._office.storing.store_topic(topic)
        self._office.storing.store_room(room)
        self._office.joining.attach(room)

    def _take_event(self, block: bytes) -> bool:
        office = self._office
        try:
            event = read_event(block)
        except RefusalError as error:
            office.refuse(error)
            return False
        room = office.room_of.get(event.topic)
        if room is None:
            office.refused["incomplete"] += 1
            return False
        if event.cid in room.log:
            return True
        self._changed[room.id] = room
        return office.spreading.take(room, event, 0, None, is_linked=True, is_told=False)
