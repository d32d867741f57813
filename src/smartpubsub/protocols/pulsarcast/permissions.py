"""Which peers may publish: checks of received topics, drafts and events.

Every node checks an event before it forwards it, so an event that breaks the rules gets no further
than one hop.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from smartpubsub.protocols.publication import Witness
from smartpubsub.protocols.pulsarcast.events import Draft, TopicEvent, read_event
from smartpubsub.protocols.pulsarcast.fields import Reason, RefusalError
from smartpubsub.protocols.pulsarcast.messages import Part
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings
from smartpubsub.protocols.pulsarcast.topics import META, Topic
from smartpubsub.protocols.runtime.outbox import Outbox


@dataclass(eq=False)
class Permissions:
    """Checks descriptors at the current time, and counts the refused ones."""

    _outbox: Outbox[Part]
    _settings: PulsarSettings
    _witness: Witness

    def refuse(self, error: RefusalError) -> None:
        """Count a descriptor that a check has refused."""
        self._outbox.reject(error.reason.value)

    def read_event(self, block: bytes) -> TopicEvent | None:
        """Return the event in a block, or count the refusal."""
        try:
            return read_event(block)
        except RefusalError as error:
            self.refuse(error)
            return None

    def read_events(self, blocks: Iterable[bytes]) -> list[TopicEvent]:
        """Return the events in some blocks; count refusals."""
        return [event for block in blocks if (event := self.read_event(block)) is not None]

    def check_topic(self, topic: Topic) -> None:
        """Refuse a topic that is forged or dated in the future."""
        check_topic(topic, self._witness, self._latest_us)

    def check_draft(self, draft: Draft) -> None:
        """Refuse a forged draft."""
        check_draft(draft, self._witness)

    def check_event(self, event: TopicEvent, topic: Topic, newest: Topic | None) -> None:
        """Refuse an event that breaks the rules of its topic; see `check_event`."""
        check_event(event, topic, newest, self._witness, self._latest_us)

    @property
    def _latest_us(self) -> int:
        return self._outbox.now + self._settings.skew_us_max


def check_topic(topic: Topic, witness: Witness, latest_us: int) -> None:
    """Refuse a topic that its author has not signed, or that is dated in the future."""
    if not witness.is_statement_of(topic.author, lambda: topic.signed, topic.signature):
        raise RefusalError(Reason.FORGED, f"the topic {topic.name!r} is not signed by its author")
    if topic.created_us > latest_us:
        raise RefusalError(Reason.FUTURE_DATED, f"the topic {topic.name!r} is dated in the future")


def check_meta_topic(meta: Topic, topic: Topic) -> None:
    """Refuse a meta topic of another author, with other publishers, or with a meta topic itself."""
    if meta.author != topic.author or meta.rules.publishers != (meta.author,):
        raise RefusalError(Reason.UNAUTHORISED, "a meta topic in which others may publish")
    if META in meta.subtopics or meta.parent is not None:
        raise RefusalError(Reason.CYCLIC, "a meta topic that has a meta topic, or versions")


def check_next_version(topic: Topic, newest: Topic) -> None:
    """Refuse a version of another author, or one that does not follow the newest known version."""
    if topic.author != newest.author or topic.stable_id != newest.stable_id:
        raise RefusalError(Reason.UNAUTHORISED, "a version of a topic by another author")
    if topic.version <= newest.version:
        raise RefusalError(Reason.ROLLED_BACK, "a version that does not come after the newest")
    if topic.version == newest.version + 1 and topic.parent != newest.cid:
        raise RefusalError(Reason.ROLLED_BACK, "a version that does not follow the newest")


def check_draft(draft: Draft, witness: Witness) -> None:
    """Refuse a draft that its author has not signed."""
    if not witness.is_statement_of(draft.id.publisher, draft.signed, draft.signature):
        raise RefusalError(Reason.FORGED, "a request that is not signed by its author")


def check_event(
    event: TopicEvent, topic: Topic, newest: Topic | None, witness: Witness, latest_us: int
) -> None:
    """Refuse an event that is forged, not allowed, misplaced or dated in the future.

    `topic` is the version that the event was published in. If no accepted event links to the event
    yet, `newest` has to allow it too: otherwise a peer that a new version excludes could go on
    publishing under an older one.
    """
    author = event.id.publisher
    if not topic.rules.allow(author, event.publisher):
        raise RefusalError(
            Reason.UNAUTHORISED, "the topic does not allow this publisher and author"
        )
    if newest is not None and not newest.rules.allow(author, event.publisher):
        raise RefusalError(
            Reason.ROLLED_BACK, "only a past version of the topic allows this publisher"
        )
    if event.draft.is_announcement != (topic.meta is None):
        raise RefusalError(Reason.MALFORMED, "only events of a meta topic announce versions")
    if event.draft.created_us > latest_us:
        raise RefusalError(Reason.FUTURE_DATED, "an event that is dated in the future")
    if event.height < 1 or (event.height == 1) == bool(event.parents):
        raise RefusalError(Reason.CYCLIC, "an event whose height does not fit its links")
    if not witness.is_statement_of(event.publisher, event.signed, event.signature):
        raise RefusalError(Reason.FORGED, "an event that is not signed by its publisher")
    if event.publisher != author:
        check_draft(event.draft, witness)
