"""A group as its owner knows it: members, what they want, events in flight, and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from smartpubsub.matching import Index
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.book import Book
from smartpubsub.protocols.fastdelivery.messages import Request
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.seam import Peer

Contract: TypeAlias = Callable[[Request], str | None]
"""Returns why a node may not join: "" if it may, None if undecided, so that the node asks again."""


def accept_all(_: Request) -> str:
    """Let every node join."""
    return ""


def accept_none_yet(_: Request) -> str:
    """Refuse new members until the restarted owner's application has set the contract again."""
    return "the owner has just started and does not know yet who may join; try again"


class MemberInterest:
    """Which members want which events."""

    def __init__(self) -> None:
        self._index = Index()
        self._keys: dict[Peer, tuple[int, ...]] = {}
        self._peers: dict[int, Peer] = {}
        self._last_key = 0

    def put(self, peer: Peer, predicates: Iterable[Predicate]) -> None:
        """Replace a member's predicates; none removes the member."""
        for key in self._keys.pop(peer, ()):
            self._index.remove(key)
            del self._peers[key]
        keys = []
        for predicate in predicates:
            self._last_key += 1
            self._index.add(self._last_key, predicate)
            self._peers[self._last_key] = peer
            keys.append(self._last_key)
        if keys:
            self._keys[peer] = tuple(keys)

    def of(self, event: Predicate) -> dict[Peer, None]:
        """Return the members that want an event."""
        return dict.fromkeys([self._peers[key] for key in sorted(self._index.match(event))])

    def peers(self) -> set[Peer]:
        """Return the members that want anything."""
        return set(self._keys)


@dataclass(slots=True, eq=False)
class EventInFlight:
    """An event that not all members that want it have confirmed."""

    event: Publication
    group: OwnedGroup
    wants_all: bool
    waiting: dict[Peer, int] = field(default_factory=dict)
    """Members that have not confirmed it, and the number of each one's predecessor; 0 for none."""
    sent: dict[Peer, Peer | None] = field(default_factory=dict)
    """The waiting members that it was sent to, and the peer that it was sent through; None if it is
    no longer on its way."""
    is_published: bool = False


@dataclass(slots=True, eq=False)
class OwnedGroup:
    """A group of this node; only `owner.GroupOwner` changes it."""

    predicate: Predicate
    book: Book
    is_advertised: bool = True
    is_private: bool = False
    """Whether only invited nodes may join."""
    contract: Contract = accept_all
    is_open: bool = False
    """Whether all subscribers that waited for the group are known; until then events wait."""
    requests: dict[Peer, Request] = field(default_factory=dict)
    """The last request of each member."""
    wanted_us: dict[Peer, dict[Predicate, int]] = field(default_factory=dict)
    """Since when each member has wanted each of its predicates."""
    renewed_us: dict[Peer, int] = field(default_factory=dict)
    started_us: dict[Peer, int] = field(default_factory=dict)
    """When each member has joined since it was last started."""
    unanswered: dict[Peer, int] = field(default_factory=dict)
    """The numbers of join requests that are answered once the member is served."""
    in_flight: dict[EventId, EventInFlight] = field(default_factory=dict)
    advertised_us: int = 0
    last_delegation: int = 0
    interest: MemberInterest = field(default_factory=MemberInterest)

    def difference(self, is_advertised: bool, is_private: bool, contract: Contract) -> str:
        """Return why the group cannot be created again with these properties; "" if it can.

        A group that restricts who may join never loses that restriction by mistake.
        """
        if self.is_private != is_private:
            kind = "private" if self.is_private else "not private"
            return f"it exists already and is {kind}; create another group"
        if self.is_advertised != is_advertised:
            kind = (
                "is advertised already" if self.is_advertised else "is not advertised; advertise it"
            )
            return f"it exists already and {kind}"
        if self.contract is not accept_all and contract is accept_all:
            return "it exists already and has a contract; create it with a contract"
        return ""

    def check(self) -> None:
        """Assert that the book, the requests and the events in flight agree."""
        self.book.check()
        members, requests = set(self.book.members), set(self.requests)
        assert members <= requests, "the book has a member without a request"
        assert set(self.renewed_us) == set(self.wanted_us) == set(self.started_us) == requests
        assert self.interest.peers() <= requests
        assert set(self.unanswered) <= requests
        for event in self.in_flight.values():
            assert set(event.sent) <= set(event.waiting) <= requests
            assert event.waiting or not self.is_open, "a confirmed event is still in flight"


# --- order ---


@dataclass(slots=True)
class _MemberPath:
    """The events that a member has not confirmed, in order."""

    hops: dict[EventId, Peer | None] = field(default_factory=dict)
    """The first hop of each event; None if the member was not served then."""
    is_mixed: bool = False
    """Whether the events took more than one path, so that links alone do not keep their order."""


class MemberPaths:
    """The order of an owner's events at each member, across all groups and paths.

    Links keep order. An event names its predecessor only if the member gets it on another path than
    an earlier event that it has not confirmed.
    """

    def __init__(self) -> None:
        self._paths: dict[Peer, _MemberPath] = {}

    def append(self, id: EventId, peer: Peer, hop: Peer | None) -> int:
        """Append an event for a member; return the number of its predecessor, 0 for none."""
        path = self._paths.setdefault(peer, _MemberPath())
        prior = 0
        if path.hops:
            last, last_hop = next(reversed(path.hops.items()))
            path.is_mixed = path.is_mixed or last_hop != hop or hop is None
            prior = last.number if path.is_mixed else 0
        path.hops[id] = hop
        return prior

    def remove(self, id: EventId, peer: Peer) -> None:
        """Remove an event of a member: later events do not name it as predecessor."""
        path = self._paths.get(peer)
        if path is not None:
            path.hops.pop(id, None)
            if not path.hops:
                del self._paths[peer]

    def check(self) -> None:
        """Assert that no member is kept without events."""
        assert all(path.hops for path in self._paths.values())
