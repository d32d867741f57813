"""The members of a group and its regions, as its book has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.seam import Peer


class Place(Enum):
    """How a member is served."""

    WAITING = "waiting"
    DIRECT = "direct"
    HELPER = "helper"
    DELEGATED = "delegated"
    SILENT = "silent"


@dataclass(slots=True, eq=False)
class Member:
    """Somebody in a group."""

    contact: Contact
    predicates: tuple[Predicate, ...]
    region: str
    capacity: int
    place: Place = Place.WAITING
    helper: Peer | None = None
    """Who serves it, if it is delegated."""
    promised_to: Peer | None = None
    """The helper that has been told to serve it, and has not said yet that it does."""
    charges: dict[Peer, None] = field(default_factory=dict)
    """Whom it serves, or has been told to."""
    term: int = 0
    granted: int = 0
    """How many it has agreed to serve."""
    unwilling_until: int = -(1 << 62)
    was_served: bool = False
    """Whether it ever had a place; who had one is not turned away."""

    @property
    def peer(self) -> Peer:
        """Who it is."""
        return self.contact.peer

    @property
    def room(self) -> int:
        """How many more it would serve."""
        return self.granted - len(self.charges) if self.place is Place.HELPER else 0


@dataclass(slots=True, eq=False)
class Region:
    """The members of one region."""

    name: str
    members: dict[Peer, Member] = field(default_factory=dict)
    places: dict[Place, dict[Peer, Member]] = field(default_factory=lambda: {p: {} for p in Place})
    able: dict[Peer, Member] = field(default_factory=dict)
    """Those who may agree to serve somebody, or more than they do."""
    unpromised: dict[Peer, Member] = field(default_factory=dict)
    """Those who wait and whom no helper has been told of, whoever is being asked to help."""
    leaving: dict[Peer, Member] = field(default_factory=dict)
    """Those who are served directly and of whom a helper has been told."""
    asked: Peer | None = None
    """Who is being asked to help."""
    decline_count: int = 0
    """How many have declined since somebody agreed, or since it was last tried."""
    is_overloaded: bool = False

    def at(self, place: Place) -> list[Member]:
        """The members in a place, in the order in which they came there."""
        return list(self.places[place].values())

    @property
    def direct_count(self) -> int:
        """How many of them the publisher serves itself, not counting helpers."""
        return len(self.places[Place.DIRECT])

    @property
    def homeless(self) -> list[Member]:
        """Those who wait and whom no helper has been told of."""
        return [member for peer, member in self.unpromised.items() if peer != self.asked]

    @property
    def has_room(self) -> bool:
        """Whether a helper would serve somebody more."""
        return any(helper.room > 0 for helper in self.places[Place.HELPER].values())

    def track(self, member: Member) -> None:
        """Take note whether somebody waits, or is served directly, and a helper knows of it."""
        is_promised = member.promised_to is not None
        _keep(self.unpromised, member, member.place is Place.WAITING and not is_promised)
        _keep(self.leaving, member, member.place is Place.DIRECT and is_promised)

    def drop(self, member: Member) -> None:
        """Somebody is no member any more."""
        everywhere = (self.members, self.places[member.place], self.able)
        for members in (*everywhere, self.unpromised, self.leaving):
            members.pop(member.peer, None)


def _keep(members: dict[Peer, Member], member: Member, is_one: bool) -> None:
    if is_one:
        members[member.peer] = member
    else:
        members.pop(member.peer, None)
