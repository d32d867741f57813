"""An event that not everybody below a node has confirmed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.scoutsubs.messages import Record
from smartpubsub.seam import Peer

EventKey: TypeAlias = tuple[EventId, str]
"""An event, and the attribute that a copy of it travels for."""

MS = 1_000
"""A millisecond in microseconds."""


@dataclass(slots=True)
class Target:
    """A child that has not confirmed an event, and how to get it there."""

    backups: tuple[Contact, ...]
    tries: int = 0


@dataclass(slots=True)
class Opened:
    """An event on its way to a node's children, or to those of somebody that it stands in for."""

    event: Publication
    attribute: str
    hops: int
    upstream: Peer | None
    """Who is told when all have it; None at the rendezvous."""
    on_behalf: Peer
    targets: dict[Peer, Target]
    sent_us: int
    began_us: int
    """When it was published, by this node's clock; whoever takes it over begins nothing anew."""
    wants_all: bool = False
    """Whether the publisher wants to know when everybody has it."""
    recording: dict[Peer, None] = field(default_factory=dict)
    """Backups that have not said that they keep it."""
    recorded: dict[Peer, None] = field(default_factory=dict)
    """Those that have."""
    holders: dict[Peer, bytes] = field(default_factory=dict)
    """Their signatures for that."""
    is_at_risk: bool = False
    """Whether there ought to be backups and none can be reached."""
    is_acknowledged: bool = False
    tries: int = 0
    again_us: int = 0
    """When it was last sent again."""

    @property
    def key(self) -> EventKey:
        """What it is filed under."""
        return self.event.id, self.attribute

    def record(self, now: int) -> Record:
        """What backups keep of it."""
        age_ms = (now - self.began_us) // MS
        return Record(self.event, self.attribute, self.hops, self.wants_all, age_ms)
