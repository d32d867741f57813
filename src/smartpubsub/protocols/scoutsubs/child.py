"""A child in a tree, as its parent knows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.scoutsubs.branches import WHOLE_STAGE
from smartpubsub.protocols.scoutsubs.messages import NOBODY, ChildCopy
from smartpubsub.seam import Peer


@dataclass(slots=True, eq=False)
class Child:
    """Somebody farther from the rendezvous, and the filters that it has announced."""

    contact: Contact
    incarnation: int
    version: int
    heard_us: int
    filters: dict[Predicate, int] = field(default_factory=dict)
    """With the keys that they are kept under."""
    direct: Contact | None = None
    backups: tuple[Contact, ...] = ()
    stage: int = WHOLE_STAGE
    """Up to which stage all that is in force below it is in the attribute's branches."""
    elsewhere: dict[str, list[Predicate]] = field(default_factory=dict)
    """Filters that it has in other trees, or whoever events go to past it; by an attribute each."""
    path: Peer = NOBODY
    """Where the last event was sent to: the child, or straight past it."""
    sent_us: int = -1 << 62
    """When that was."""
    outstanding: int = 0
    """How many events were sent there and are not confirmed."""
    held: list[tuple[EventId, str]] = field(default_factory=list)
    """Events that wait for those, so as not to overtake them."""

    def copy(self) -> ChildCopy:
        """The child as a backup is told of it."""
        return ChildCopy(
            self.contact,
            self.incarnation,
            self.version,
            tuple(self.filters),
            self.direct,
            self.backups,
        )


class Former(NamedTuple):
    """A child that has moved to another parent, as it was then.

    An event of before may still be on its way here for it, or be sent again after it got lost.
    """

    filters: tuple[Predicate, ...]
    backups: tuple[Contact, ...]
    left_us: int
