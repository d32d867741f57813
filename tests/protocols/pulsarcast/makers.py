"""Topics and events for tests, signed with real keys."""

from smartpubsub.node.identity import Identity
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pulsarcast.events import Draft, TopicEvent, new_event, sealed_draft
from smartpubsub.protocols.pulsarcast.topics import META, Rules, Topic, new_meta_topic, new_topic

NOW = 1_700_000_000_000_000


class Person:
    """A peer with a key."""

    def __init__(self, number: int) -> None:
        self.identity = Identity.of(number.to_bytes(32, "big"))
        self.signing = Ed25519Signing(self.identity)
        self.peer = self.identity.peer
        self.count = 0

    def topic(self, rules: Rules | None = None, name: str = "news") -> tuple[Topic, Topic]:
        """A topic and its meta topic."""
        meta = new_meta_topic(f"{name}/meta", self.peer, self.signing, NOW)
        links = {META: meta.cid}
        topic = new_topic(name, self.peer, rules or Rules(), self.signing, NOW, subtopics=links)
        return topic, meta

    def version(self, before: Topic, rules: Rules | None = None, now: int = NOW + 1) -> Topic:
        """The next version of a topic."""
        return new_topic(
            before.name,
            self.peer,
            rules or before.rules,
            self.signing,
            now,
            parent=before,
            subtopics=before.subtopics,
        )

    def draft(self, topic: Topic, payload: bytes = b"hello", now: int = NOW) -> Draft:
        """A draft to be published."""
        self.count += 1
        id = EventId(self.peer, 1, self.count)
        draft = Draft(topic=topic.cid, id=id, created_us=now, payload=payload)
        return sealed_draft(draft, self.signing)

    def event(
        self,
        topic: Topic,
        *parents: TopicEvent,
        payload: bytes = b"hello",
        now: int = NOW,
        draft: Draft | None = None,
        height: int | None = None,
    ) -> TopicEvent:
        """An event after others."""
        higher = 1 + max((parent.height for parent in parents), default=0)
        cids: tuple[Cid, ...] = tuple(parent.cid for parent in parents)
        return new_event(
            draft or self.draft(topic, payload, now),
            self.peer,
            cids,
            higher if height is None else height,
            self.signing,
        )
