"""Results that only Pulsarcast delivers to applications."""

from __future__ import annotations

from typing import NamedTuple

from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.pulsarcast.topics import Topic


class TopicStored(NamedTuple):
    """Every node can find this topic, or this new version of a topic."""

    topic: Cid


class TopicDescribed(NamedTuple):
    """The versions of a topic that were found, newest first; none if the topic was not found."""

    number: int
    versions: tuple[Topic, ...]


class HistoryRead(NamedTuple):
    """A part of a topic's history, in order; no topic if it was not found."""

    number: int
    topic: Topic | None
    events: tuple[TopicEvent, ...]
    is_since_known: bool = True
    """Whether a node knows the event after which the history was to begin, if there is one."""
    missing: tuple[Cid, ...] = ()
    """Linked events that none of the asked nodes has."""
    let_go: tuple[Cid, ...] = ()
    """Linked events that the nodes which had them have pruned."""
    silent: int = 0
    """How many keepers have not answered; they may know of newer events."""
