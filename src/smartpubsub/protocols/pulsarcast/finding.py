"""Descriptors of topics: known, or from whoever mentioned them, or from the overlay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from smartpubsub.kademlia.queries import Got
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.checking import (
    check_meta_topic,
    check_next_version,
    check_topic,
)
from smartpubsub.protocols.pulsarcast.office import Office
from smartpubsub.protocols.pulsarcast.parts import Described, Want
from smartpubsub.protocols.pulsarcast.refusals import RefusalError
from smartpubsub.protocols.pulsarcast.room import Room, new_room
from smartpubsub.protocols.pulsarcast.topics import Topic, read_topic
from smartpubsub.seam import Peer

AGAIN_US = 3 * SECOND
SEARCHES_MAX = 10
"""How often the overlay is asked for a descriptor before it counts as not to be found."""
WANTED_MAX = 10_000
ANSWERED_MAX = 50
"""How many descriptors are sent at once."""


class Finding:
    """Finds descriptors, and opens rooms for them."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._wanted: dict[Cid, list[Callable[[Topic | None], None]]] = {}
        self._searches: dict[Cid, int] = {}
        self._found: dict[Cid, Topic] = {}
        """Descriptors whose rooms are not open yet."""

    # --- rooms ---

    def room(
        self, topic: Cid, then: Callable[[Room | None], None], peer: Peer | None = None
    ) -> None:
        """Have the room of a topic, which may have to be found first; None if it cannot be."""
        room = self._office.room_of.get(topic)
        if room is not None:
            then(room)
        else:
            self.find(topic, partial(self._with_topic, then, peer), peer)

    def _with_topic(
        self, then: Callable[[Room | None], None], peer: Peer | None, topic: Topic | None
    ) -> None:
        if topic is None:
            then(None)
        elif topic.meta is None:
            then(self._opened(topic, topic))
        else:
            self.find(topic.meta, partial(self._with_meta, then, topic), peer)

    def _with_meta(
        self, then: Callable[[Room | None], None], topic: Topic, meta: Topic | None
    ) -> None:
        if meta is None:
            then(None)
            return
        try:
            check_meta_topic(meta, topic)
        except RefusalError as error:
            self._office.refuse(error)
            then(None)
            return
        then(self._opened(topic, meta))

    def _opened(self, topic: Topic, meta: Topic) -> Room | None:
        office = self._office
        room = office.rooms.get(meta.cid)
        if room is not None:
            self.learn(room, topic)
            return room
        if len(office.rooms) >= office.settings.room_count_max:
            office.refused["too many topics"] += 1
            return None
        room = new_room(topic, meta, office.own.key)
        self._found.pop(topic.cid, None)
        self._found.pop(meta.cid, None)
        office.index(room)
        office.storing.store_topic(meta)
        office.storing.store_topic(topic)
        office.storing.store_room(room)
        return room

    # --- versions ---

    def hear_of_version(self, room: Room, cid: Cid, peer: Peer) -> None:
        """Somebody knows a version of a topic, which may be a newer one."""
        if cid not in room.versions:
            self.find(cid, partial(self._on_version, room, peer), peer)

    def _on_version(self, room: Room, peer: Peer, topic: Topic | None) -> None:
        if topic is not None and self._office.rooms.get(room.id) is room:
            self.learn(room, topic)
            # What was published in this version could not be judged before.
            self._office.catching_up.exchange(room, peer)

    def have_versions(
        self, room: Room, cids: Sequence[Cid], peer: Peer, then: Callable[[], None]
    ) -> None:
        """Have those versions of a topic that can be found, from a peer who should have them."""
        if not cids:
            then()
            return
        open_count = len(cids)

        def on_found(topic: Topic | None) -> None:
            nonlocal open_count
            if topic is not None:
                self.learn(room, topic)
            open_count -= 1
            if not open_count:
                then()

        for cid in cids:
            self.find(cid, on_found, peer)

    def learn(self, room: Room, topic: Topic) -> bool:
        """Know a version: the newest, or an old one, for the events that were published in it.

        Whether it is one of the topic's.
        """
        if topic.cid in room.versions:
            return True
        try:
            if topic.version > room.topic.version or topic.author != room.topic.author:
                check_next_version(topic, room.topic)
        except RefusalError as error:
            self._office.refuse(error)
            return False
        if topic.room != room.id or len(room.versions) >= self._office.settings.version_count_max:
            self._office.refused["unauthorised"] += 1
            return False
        room.add_version(topic)
        self._office.room_of[topic.cid] = room
        self._office.storing.store_topic(topic)
        self._office.storing.store_room(room)
        return True

    # --- descriptors ---

    def find(
        self, cid: Cid, then: Callable[[Topic | None], None], peer: Peer | None = None
    ) -> None:
        """Have a descriptor, from a peer who should have it or from the overlay."""
        known = self._office.known_topic(cid) or self._found.get(cid)
        if known is not None:
            then(known)
            return
        waiting = self._wanted.get(cid)
        if waiting is not None:
            waiting.append(then)
            return
        if len(self._wanted) >= WANTED_MAX:
            self._office.refused["too many searches"] += 1
            then(None)
            return
        self._wanted[cid] = [then]
        self._searches[cid] = 0
        if peer is not None:
            self._office.say(peer, Want((cid,)))
            self._office.set_timer(("find", cid), AGAIN_US)
        else:
            self._search(cid)

    def _search(self, cid: Cid) -> None:
        if not self._office.is_ready:
            self._office.set_timer(("find", cid), AGAIN_US)
            return
        self._searches[cid] += 1
        self._office.get(cid, self._on_got)

    def _on_got(self, got: Got) -> None:
        if got.value is not None:
            self._on_block(got.value)
        if got.name not in self._wanted:
            return
        if self._searches[got.name] >= SEARCHES_MAX:
            self._settle(got.name, None)
        else:
            self._office.set_timer(("find", got.name), AGAIN_US)

    def on_timer(self, cid: Cid) -> None:
        """Nobody has told what is in a descriptor for some time."""
        if cid in self._wanted:
            self._search(cid)

    def on_want(self, peer: Peer, part: Want) -> None:
        """Somebody asks for descriptors."""
        for cid in part.cids[:ANSWERED_MAX]:
            known = self._office.known_topic(cid)
            if known is not None:
                self._describe(peer, known)
            elif cid in self._wanted and len(self._wanted[cid]) < WANTED_MAX:
                self._wanted[cid].append(partial(self._describe, peer))  # As soon as it is here.

    def _describe(self, peer: Peer, topic: Topic | None) -> None:
        if topic is not None:
            self._office.say(peer, Described((topic.block,)))

    def on_described(self, part: Described) -> None:
        """Descriptors have come."""
        self.take(part.blocks)

    def take(self, blocks: Iterable[bytes]) -> None:
        """Look at descriptors that were wanted."""
        for block in blocks:
            self._on_block(block)

    def _on_block(self, block: bytes) -> None:
        office = self._office
        try:
            topic = read_topic(block)
            if topic.cid not in self._wanted:
                return
            check_topic(topic, office.signing, office.now + office.settings.skew_us_max)
        except RefusalError as error:
            office.refuse(error)
            return
        self._settle(topic.cid, topic)

    def _settle(self, cid: Cid, topic: Topic | None) -> None:
        if topic is not None and len(self._found) < WANTED_MAX:
            self._found[cid] = topic
        del self._searches[cid]
        self._office.cancel_timer(("find", cid))
        for then in self._wanted.pop(cid):
            then(topic)
        self._found.pop(cid, None)
