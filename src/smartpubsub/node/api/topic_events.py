"""Events of topics as an application gets them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from smartpubsub.node.api.arrivals import Event, time_of
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.node.errors import NodeError
from smartpubsub.node.identity import peer_text
from smartpubsub.protocols.blocks import Cid, cid_text
from smartpubsub.protocols.pulsarcast.directory import TopicDirectory
from smartpubsub.protocols.pulsarcast.events import TopicEvent


@dataclass(frozen=True)
class TopicReceipt(Receipt):
    """What the publisher knows of an event in a topic."""

    content_id: str | None = None
    """The id that readers see; None if it is not known yet."""


@dataclass(frozen=True)
class Gaps:
    """What is missing of a topic's history; false if it is complete."""

    missing: tuple[str, ...] = ()
    """The content ids of events that no keeper has."""
    let_go: tuple[str, ...] = ()
    """The content ids of events that limits have dropped; their ancestors may be missing too."""
    silent_keepers: int = 0
    """The number of keepers that have not answered; they may know newer events."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.let_go or self.silent_keepers)


class History(list["Entry"]):
    """Events of a topic in its order, and what is missing."""

    def __init__(self, entries: Iterable[Entry] = (), gaps: Gaps | None = None) -> None:
        super().__init__(entries)
        self.gaps = gaps or Gaps()


class Exported(NamedTuple):
    """What was written to a file."""

    block_count: int
    gaps: Gaps


@dataclass(frozen=True)
class Entry(Event):
    """An event of a topic; its id is its content id, and `publisher` has signed it last."""

    author: str
    created: datetime = field(kw_only=True)
    parents: tuple[str, ...]
    height: int
    block: bytes
    """The whole event with its signatures, which anyone can verify."""

    @property
    def cid(self) -> str:
        """Its content id, which is its id."""
        return self.id

    def to_block(self) -> bytes:
        """Its block."""
        return self.block

    @classmethod
    def of_event(cls, event: TopicEvent, hops: int = 0) -> Entry:
        """Convert an event that the protocol has verified."""
        return cls(
            id=cid_text(event.cid),
            publisher=peer_text(event.publisher),
            predicate=event.publication.predicate,
            payload=event.draft.payload,
            hops=hops,
            author=peer_text(event.id.publisher),
            created=time_of(event.draft.created_us),
            parents=tuple(map(cid_text, event.parents)),
            height=event.height,
            block=event.block,
        )


def must_be_topic(cid: Cid, directory: TopicDirectory) -> None:
    """Raise an error if this node knows that a content id is an event's."""
    for replica in directory.replicas.values():
        event = replica.log.events.get(cid)
        if event is not None:
            topic = cid_text(event.topic)
            raise NodeError(f"{cid_text(cid)} is an event; name the topic that it is in, {topic}")
