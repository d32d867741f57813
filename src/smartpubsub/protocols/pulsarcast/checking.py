"""Whether a descriptor is taken: who signed it, whether they may, and whether its time has come.

Every node that passes an event on checks it, so what must not be goes no further than one hop.
"""

from __future__ import annotations

from smartpubsub.protocols.publication import Witness
from smartpubsub.protocols.pulsarcast.events import Draft, TopicEvent
from smartpubsub.protocols.pulsarcast.refusals import Reason, RefusalError
from smartpubsub.protocols.pulsarcast.topics import META, Topic


def check_topic(topic: Topic, signing: Witness, latest_us: int) -> None:
    """A topic is its author's, and not of the future."""
    if not signing.is_vouched(topic.author, lambda: topic.signed, topic.signature):
        raise RefusalError(Reason.FORGED, f"the topic {topic.name!r} is not signed by its author")
    if topic.created_us > latest_us:
        raise RefusalError(Reason.FUTURE_DATED, f"the topic {topic.name!r} is dated in the future")


def check_meta_topic(meta: Topic, topic: Topic) -> None:
    """A meta topic is the same author's, who alone publishes there, and has none of its own."""
    if meta.author != topic.author or meta.rules.publishers != (meta.author,):
        raise RefusalError(Reason.UNAUTHORISED, "a meta topic in which others may publish")
    if META in meta.subtopics or meta.parent is not None:
        raise RefusalError(Reason.CYCLIC, "a meta topic that has a meta topic, or versions")


def check_next_version(topic: Topic, newest: Topic) -> None:
    """A version comes after the newest one that is known, and is the same author's."""
    if topic.author != newest.author or topic.room != newest.room:
        raise RefusalError(Reason.UNAUTHORISED, "a version of a topic by somebody else")
    if topic.version <= newest.version:
        raise RefusalError(Reason.ROLLED_BACK, "a version that does not come after the newest")
    if topic.version == newest.version + 1 and topic.parent != newest.cid:
        raise RefusalError(Reason.ROLLED_BACK, "a version that does not follow the newest")


def check_draft(draft: Draft, signing: Witness) -> None:
    """What somebody asks to have published is its author's."""
    if not signing.is_vouched(draft.id.publisher, draft.signed, draft.signature):
        raise RefusalError(Reason.FORGED, "a request that is not signed by its author")


def check_event(
    event: TopicEvent, topic: Topic, newest: Topic | None, signing: Witness, latest_us: int
) -> None:
    """An event is its author's and publisher's, who may publish it, and not of the future.

    The topic is the version that it was published in. If nothing links to it yet, the newest
    version has to allow it too, or whoever is put out of a topic could go on under an old version.
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
        raise RefusalError(Reason.MALFORMED, "a meta topic tells of versions, and others do not")
    if event.draft.created_us > latest_us:
        raise RefusalError(Reason.FUTURE_DATED, "an event that is dated in the future")
    if event.height < 1 or (event.height == 1) == bool(event.parents):
        raise RefusalError(Reason.CYCLIC, "an event that does not lie above what it links to")
    if not signing.is_vouched(event.publisher, event.signed, event.signature):
        raise RefusalError(Reason.FORGED, "an event that is not signed by its publisher")
    if event.publisher != author:
        check_draft(event.draft, signing)
