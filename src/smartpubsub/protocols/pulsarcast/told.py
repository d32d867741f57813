"""What Pulsarcast tells besides what all protocols do."""

from __future__ import annotations

from typing import NamedTuple

from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.pulsarcast.topics import Topic


class TopicStored(NamedTuple):
    """A topic, or a new version of one, can be found by everybody."""

    topic: Cid


class TopicDescribed(NamedTuple):
    """A topic's versions, the newest first, as far back as they can be found; none if it cannot."""

    number: int
    versions: tuple[Topic, ...]


class HistoryRead(NamedTuple):
    """What was read of a topic's history, in its order; no topic if it cannot be had."""

    number: int
    topic: Topic | None
    events: tuple[TopicEvent, ...]
    is_since_known: bool = True
    """Whether anybody knows the event since which history was to be read, if there is one."""
    missing: tuple[Cid, ...] = ()
    """Events that belong to it and that nobody who was asked has, as far as links name them."""
    let_go: tuple[Cid, ...] = ()
    """The same of events that those who keep it have let go; there may be more below them."""
    silent: int = 0
    """How many of those who keep the topic have not answered; they may know of newer events."""
