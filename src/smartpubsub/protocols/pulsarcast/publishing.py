"""Publishing: an event is linked to what was seen before it, stored, and sent on its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from smartpubsub.kademlia.queries import Put
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Refused
from smartpubsub.protocols.pulsarcast.events import (
    PARENTS_MAX,
    PAYLOAD_BYTES_MAX,
    Draft,
    new_event,
    sealed_draft,
)
from smartpubsub.protocols.pulsarcast.office import Office
from smartpubsub.protocols.pulsarcast.room import Room, new_room
from smartpubsub.protocols.pulsarcast.told import TopicStored
from smartpubsub.protocols.pulsarcast.topics import (
    META,
    Linking,
    Rules,
    Topic,
    new_meta_topic,
    new_topic,
)

STAY_US = 10 * MINUTE
"""How long a node that has published stays in a topic's tree if it has not subscribed."""
ANNOUNCEMENTS_FROM = 1 << 32
"""Events that tell of versions are numbered from here on, apart from what applications publish."""


class Publishing:
    """Makes topics and events."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._announced = 0
        self._unstored: dict[Cid, int] = {}
        """Topics that are being made, and how much of each is not stored yet."""

    # --- topics ---

    def create(self, name: str, rules: Rules, subtopics: Mapping[str, Cid]) -> Topic:
        """Make a topic, and its meta topic first; `TopicStored` comes."""
        office = self._office
        own = office.own.peer
        meta = new_meta_topic(f"{name}/{META}", own, office.signing, office.now)
        topic = new_topic(
            name, own, rules, office.signing, office.now, subtopics={**subtopics, META: meta.cid}
        )
        room = new_room(topic, meta, office.own.key)
        room.is_new, room.has_all = False, True
        room.wanted_until_us = office.now + STAY_US
        office.index(room)
        office.storing.store_topic(meta)
        office.storing.store_room(room)
        self._store(room, topic, [meta, topic])
        return topic

    def next_version(self, room: Room, rules: Rules, subtopics: Mapping[str, Cid]) -> Topic:
        """Make a new version of an own topic; `TopicStored` comes."""
        office, before = self._office, room.topic
        linked = {**subtopics, META: room.id}
        topic = new_topic(
            before.name,
            before.author,
            rules,
            office.signing,
            office.now,
            parent=before,
            subtopics=linked,
        )
        room.add_version(topic)
        office.index(room)
        office.storing.store_room(room)
        self._store(room, topic, [topic])
        return topic

    def _store(self, room: Room, topic: Topic, blocks: list[Topic]) -> None:
        office = self._office
        office.storing.store_topic(topic)
        office.joining.attach(room)
        self._unstored[topic.cid] = len(blocks) + 1
        for block in blocks:
            self._put(topic.cid, block)
        self._announced += 1
        number = ANNOUNCEMENTS_FROM + self._announced
        draft = Draft(
            topic=room.id,
            id=EventId(office.own.peer, office.incarnation, number),
            created_us=office.now,
            payload=topic.cid,
            is_announcement=True,
        )
        self.place(room, draft, partial(self._on_stored, topic.cid))

    def _put(self, topic: Cid, block: Topic) -> None:
        self._office.put(block.cid, block.block, partial(self._on_put, topic, block))

    def _on_put(self, topic: Cid, block: Topic, put: Put) -> None:
        if put.copies:
            self._on_stored(topic)
        else:
            self._put(topic, block)

    def _on_stored(self, topic: Cid) -> None:
        self._unstored[topic] -= 1
        if not self._unstored[topic]:
            del self._unstored[topic]
            self._office.deliver(TopicStored(topic))

    # --- events ---

    def publish(
        self, publication: Publication, topic: Cid, parents: tuple[Cid, ...] | None = None
    ) -> None:
        """Publish in a topic; `Published` or `Refused` comes."""
        then = partial(self._publish, publication, topic, parents)
        self._office.finding.room(topic, then)

    def _publish(
        self,
        publication: Publication,
        topic: Cid,
        parents: tuple[Cid, ...] | None,
        room: Room | None,
    ) -> None:
        office, id = self._office, publication.id
        problem = self._problem(room, topic, publication.payload, parents)
        if problem and room is not None and not room.is_attached:
            # The newest version of the topic, which others know, may say something else.
            then = partial(self._publish, publication, topic, parents, room)
            office.describing.when_settled(room, then)
            return
        if problem or room is None:
            office.deliver(Refused(id, problem))
            return
        room.wanted_until_us = max(room.wanted_until_us, office.now + STAY_US)
        office.linking.when_here(
            room,
            parents or (),
            partial(self._link, publication, topic, parents, room),
            lambda: office.deliver(Refused(id, "nobody has the event to link to")),
        )

    def _link(
        self, publication: Publication, topic: Cid, parents: tuple[Cid, ...] | None, room: Room
    ) -> None:
        office = self._office
        if room.is_new and room.topic.rules.may_publish(office.own.peer):
            # Until it has its place the node does not know what there is to link to.
            room.drafts.append(partial(self._publish, publication, topic, parents, room))
            office.joining.attach(room)
            return
        draft = Draft(
            topic=room.topic.cid,
            id=publication.id,
            created_us=office.now,
            payload=publication.payload,
            parents=parents,
        )
        if not room.topic.rules.may_publish(office.own.peer):
            office.requesting.request(room, sealed_draft(draft, office.signing))
        else:
            self.place(room, draft, None, parents)

    def _problem(
        self, room: Room | None, topic: Cid, payload: bytes, parents: tuple[Cid, ...] | None
    ) -> str:
        own, settings = self._office.own.peer, self._office.settings
        if room is None:
            return "the topic was not found; is its author or anybody who keeps it there?"
        if topic == room.id:
            return "a meta topic tells of versions only; publish in the topic itself"
        rules = room.topic.rules
        if not rules.may_publish(own) and not rules.may_request(own):
            return "the topic does not allow this node to publish, nor to ask others to"
        if len(payload) > PAYLOAD_BYTES_MAX:
            return f"a payload has at most {PAYLOAD_BYTES_MAX} bytes"
        if len(room.keeping) + len(room.drafts) >= settings.pending_count_max:
            return "too many events wait to be stored; try again later"
        return self._linking_problem(room, parents)

    def _linking_problem(self, room: Room, parents: tuple[Cid, ...] | None) -> str:
        is_custom = room.topic.rules.linking is Linking.CUSTOM
        if is_custom != (parents is not None):
            return (
                "its links are for you to say in this topic: name parents, or say that it has none"
                if is_custom
                else "events link to the newest in this topic: name no parents"
            )
        if parents is not None and len(parents) > PARENTS_MAX:
            return f"an event links to at most {PARENTS_MAX} others"
        if parents is not None and len(set(parents)) < len(parents):
            return "an event links to another once; name each parent once"
        return ""

    def on_settled(self, room: Room) -> None:
        """The node knows now what was published last, and by which rules."""
        drafts, room.drafts = room.drafts, []
        for publish in drafts:
            publish()

    def place(
        self,
        room: Room,
        draft: Draft,
        then: Callable[[], None] | None = None,
        parents: tuple[Cid, ...] | None = None,
    ) -> None:
        """Give an event its place in a topic, store it, and send it on its way."""
        linked = _last_seen(room) if parents is None else parents
        heights = [self._height(room, cid) for cid in linked]
        height = 1 + max(heights, default=0)
        event = new_event(draft, self._office.own.peer, linked, height, self._office.signing)
        self._office.spreading.publish(room, event)
        self._office.keeping.keep(room, event, then)

    def _height(self, room: Room, cid: Cid) -> int:
        event = room.log.events.get(cid)
        return room.log.heads[cid] if event is None else event.height


def _last_seen(room: Room) -> tuple[Cid, ...]:
    """The newest event, and if others are not linked to yet, those that are so for longest."""
    heads = sorted((height, cid) for cid, height in room.log.heads.items())
    if len(heads) <= PARENTS_MAX:
        return tuple(cid for _, cid in reversed(heads))
    return (heads[-1][1], *(cid for _, cid in heads[: PARENTS_MAX - 1]))
