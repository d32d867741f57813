"""A group as its owner has it: who is in it, who wants what, and which events are under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.book import Book
from smartpubsub.protocols.fastdelivery.parts import Request
from smartpubsub.protocols.fastdelivery.wants import Wants
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.seam import Peer

Contract: TypeAlias = Callable[[Request], str]
"""Why somebody may not join, or nothing if it may."""


def everybody_may(_: Request) -> str:
    """The contract of a group that takes everybody."""
    return ""


def nobody_may_yet(_: Request) -> str:
    """The contract of a group whose owner has started again, and has not said yet what it is."""
    return "the owner has just started and does not know yet who may join; try again"


@dataclass(slots=True, eq=False)
class Record:
    """An event that is not yet confirmed by everybody who wants it."""

    event: Publication
    group: Group
    wants_all: bool
    waiting: dict[Peer, int] = field(default_factory=dict)
    """Who has not confirmed it, and which event each is to have before; 0 for none."""
    sent: dict[Peer, Peer | None] = field(default_factory=dict)
    """Whom of them it was sent to, and by whom it is on its way now; None if it is not."""
    is_published: bool = False


@dataclass(slots=True, eq=False)
class Group:
    """One of the owner's groups."""

    predicate: Predicate
    book: Book
    is_advertised: bool = True
    is_private: bool = False
    """Whether only those may join who were invited."""
    contract: Contract = everybody_may
    is_open: bool = False
    """Whether everybody who waited for such a group is known; before, events wait too."""
    requests: dict[Peer, Request] = field(default_factory=dict)
    """The last that each member has said."""
    renewed_us: dict[Peer, int] = field(default_factory=dict)
    questions: dict[Peer, int] = field(default_factory=dict)
    """The joins that are to be answered when the member has its place."""
    records: dict[EventId, Record] = field(default_factory=dict)
    advertised_us: int = 0
    last_delegation: int = 0
    last_region: int = 0
    wants: Wants = field(default_factory=Wants)

    def difference(self, is_advertised: bool, is_private: bool, contract: Contract) -> str:
        """Why it is not the group that is wanted, if it is not; nobody is let in by mistake."""
        if self.is_private != is_private:
            kind = "private" if self.is_private else "not private"
            return f"it is there already and {kind}, and stays so; make another group"
        if self.is_advertised != is_advertised:
            kind = (
                "is advertised already" if self.is_advertised else "is not advertised; advertise it"
            )
            return f"it is there already and {kind}"
        if self.contract is not everybody_may and contract is everybody_may:
            return "it is there already, and its owner decides who may join; say who decides now"
        return ""
