"""The messages of FastDelivery: questions, and answers under the same number.

`protocols/runtime/messages.py` says how a class declares a message.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, NamedTuple, TypeAlias

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.runtime.messages import (
    Attribute,
    Digest,
    Duration,
    Few,
    MessageLimits,
    NumberedEnvelope,
    PeerId,
    Signature,
    at_most,
)
from smartpubsub.seam import Peer

_wire = NumberedEnvelope("fastdelivery", "Packet")

Hops: TypeAlias = Annotated[int, at_most(2)]
"""No node passes on an event that has come over two links."""


class GroupId(NamedTuple):
    """The owner of a group, and the predicate of the events that may be published in it."""

    owner: PeerId
    predicate: Predicate


# --- signed entries ---


class Notice(NamedTuple):
    """The advertisement of a group, signed by its owner."""

    contact: Contact
    predicate: Predicate
    signature: Signature

    @property
    def id(self) -> GroupId:
        """The group that is advertised."""
        return GroupId(self.contact.peer, self.predicate)


VERSION_BITS = 28
"""The request versions of a later incarnation are higher than all those of earlier ones."""


class Request(NamedTuple):
    """What a subscriber wants and offers, signed by itself."""

    contact: Contact
    predicates: tuple[Predicate, ...]
    """All that it wants of a group; empty if it leaves."""
    region: str
    capacity: int
    version: int
    """A later request of the same peer has a higher version."""
    signature: Signature

    @property
    def incarnation(self) -> int:
        """How often the peer had been started before."""
        return self.version >> VERSION_BITS


@lru_cache(maxsize=1 << 14)
def canonical_text(predicate: Predicate) -> str:
    """The text of a predicate with its attributes in the order of their names."""
    return str(predicate.canonical())


# --- directory ---


def place_in_directory(group: GroupId) -> tuple[Peer, str]:
    """The key by which a directory sorts its groups."""
    return group.owner, canonical_text(group.predicate)


def digest_of(groups: Iterable[GroupId]) -> bytes:
    """A digest of a set of groups; their order does not matter."""
    digest = sha256()
    for owner, text in sorted(map(place_in_directory, groups)):
        for field in (owner, text.encode()):
            digest.update(len(field).to_bytes(4, "big") + field)
    return digest.digest()


@_wire.message(17)
class Advertise(NamedTuple):
    """A group for the directory of one of its attributes."""

    attribute: Attribute
    notice: Notice
    after: PeerId
    """The peer after which the answer begins, among the searching peers in their order."""


class Watched(NamedTuple):
    """A standing search, and how long it still lasts."""

    request: Request
    life_s: Duration


@_wire.message(18)
class Watchers(NamedTuple):
    """The standing searches that find an advertised group."""

    watched: tuple[Watched, ...]
    is_more: bool
    closer: tuple[Contact, ...]
    """Other peers that should keep the directory and lie closer to its attribute."""
    refusal: str = ""
    """Why the group is not in the directory; empty if it is."""


@_wire.message(15)
class Search(NamedTuple):
    """A question for the groups that fit a predicate, under one of its attributes."""

    attribute: Attribute
    predicate: Predicate
    watch: Request | None
    """The request of the peer that wants later groups too."""
    after_group: GroupId | None
    """The group after which the answer begins, in the order of the directory."""
    known: Signature
    """The digest of another directory's list: a directory with the same list sends no groups."""


@_wire.message(16)
class Listed(NamedTuple):
    """Groups of a directory."""

    notices: tuple[Notice, ...]
    is_more: bool
    closer: tuple[Contact, ...]
    """Other peers that should keep the directory and lie closer to its attribute."""
    refusal: str = ""
    """Why this lists no groups, or why the directory will not report later groups."""


@_wire.message(20)
class Unwatch(NamedTuple):
    """The end of a standing search."""

    attribute: Attribute
    predicate: Predicate


class Posted(NamedTuple):
    """A group in a directory, and how long it still stays there."""

    notice: Notice
    life_s: Duration


@_wire.message(21)
class CopyDirectory(NamedTuple):
    """The content of a directory, for a peer that should keep it too."""

    attribute: Attribute
    posted: tuple[Posted, ...]
    watched: tuple[Watched, ...]


@_wire.message(26)
class PullDirectory(NamedTuple):
    """A new keeper of a directory asks its neighbours for the content; the copies come first."""

    attribute: Attribute


@_wire.message(22)
class Invite(NamedTuple):
    """A group that the receiver has waited for."""

    notice: Notice


# --- members ---


@_wire.message(8)
class Join(NamedTuple):
    """A subscriber joins a group, stays in it, changes what it wants of it, or leaves."""

    group: Predicate
    request: Request
    invitation: Signature


@_wire.message(9)
class Joined(NamedTuple):
    """The owner serves the member as requested, or refuses it."""

    refusal: str
    """The reason; empty if the subscriber is a member."""
    helper: PeerId = b""
    """The node that serves the member; empty if the owner does."""


@_wire.message(28)
class ServedBy(NamedTuple):
    """The owner tells a member which helper serves it."""

    group: Predicate
    helper: PeerId


@_wire.message(31)
class GroupEnded(NamedTuple):
    """The owner has ended a group that the receiver is a member of."""

    group: Predicate


@_wire.message(23)
class Measure(NamedTuple):
    """A question for the round-trip times to some peers."""

    landmarks: Few[Contact]


@_wire.message(24)
class Measured(NamedTuple):
    """Round-trip times in microseconds, in the order of the peers; 0 for no answer."""

    round_trips: Few[int]


# --- helpers ---


class Charge(NamedTuple):
    """A member that is delegated to a helper."""

    contact: Contact
    predicates: tuple[Predicate, ...]


@_wire.message(10)
class Recruit(NamedTuple):
    """A question whether the receiver serves a number of members of a group."""

    group: Predicate
    term: int
    """The helper works under this term."""
    wanted: int


@_wire.message(11)
class Agreed(NamedTuple):
    """The number of members that the candidate serves; 0 if it declines."""

    granted: int


@_wire.message(12)
class Delegate(NamedTuple):
    """Members that a helper serves from now on, as they are now, and members that it drops."""

    group: Predicate
    term: int
    version: int
    """For each member the highest version counts, so messages may arrive in any order."""
    charges: tuple[Charge, ...]
    gone: tuple[PeerId, ...]


@_wire.message(19)
class Release(NamedTuple):
    """The owner does not need a helper any more."""

    group: Predicate
    term: int


@_wire.message(7)
class NotHelping(NamedTuple):
    """The sender is no helper under this term, or has no room for an event to keep."""


# --- events ---


class Turn(NamedTuple):
    """The number of the event that a member gets before another one."""

    peer: PeerId
    prior: int


@_wire.message(4)
class Relay(NamedTuple):
    """An event for a helper and for those of its members that want it."""

    group: Predicate
    term: int
    event: Publication
    only: tuple[PeerId, ...]
    """The members that it is for; empty for all that want it."""
    is_resend: bool
    turns: tuple[Turn, ...] = ()
    """The members that get another event first, which may come by another path."""


@_wire.message(6)
class Working(NamedTuple):
    """The answer comes later: the event, its predecessor or the list is still under way."""


@_wire.message(5)
class RelayConfirmed(NamedTuple):
    """All members have the event, except those that do not answer."""

    unreached: tuple[PeerId, ...]


@_wire.message(2)
class GroupNotify(NamedTuple):
    """An event for a member."""

    group: Predicate
    event: Publication
    hops: Hops
    is_resend: bool
    prior: int = 0
    """The number of the publisher's event that comes first; 0 if the link keeps the order."""


@_wire.message(3)
class Got(NamedTuple):
    """The member has the event."""

    is_wanted: bool
    """Whether the sender is a member."""


@_wire.message(27)
class Expect(NamedTuple):
    """A question to a publisher whether an event, which precedes others, is on its way."""

    incarnation: int
    number: int


@_wire.message(25)
class Keep(NamedTuple):
    """An event for a member that does not answer now."""

    peer: PeerId
    group: Predicate
    event: Publication


@_wire.message(29)
class Review(NamedTuple):
    """A member asks the owner for events of a group that it has missed."""

    group: Predicate
    age_ms: Duration
    """The greatest age of the events that the member asks for."""
    had: tuple[Digest, ...]
    """The events that the member has: each incarnation times 2^32, and the number."""


@_wire.message(30)
class Reviewed(NamedTuple):
    """The events that a member has missed."""

    events: tuple[Publication, ...]


# --- all components ---


@_wire.message(14)
class Ping(NamedTuple):
    """A question whether the receiver is up."""


@_wire.message(13)
class RequestDone(NamedTuple):
    """Yes, or the request is carried out."""


Question: TypeAlias = (
    GroupNotify
    | Relay
    | Join
    | ServedBy
    | GroupEnded
    | Recruit
    | Delegate
    | Release
    | Advertise
    | Search
    | Unwatch
    | CopyDirectory
    | PullDirectory
    | Invite
    | Measure
    | Keep
    | Expect
    | Review
    | Ping
)
Answer: TypeAlias = (
    Got
    | RelayConfirmed
    | Working
    | NotHelping
    | Joined
    | Agreed
    | Watchers
    | Listed
    | Measured
    | Reviewed
    | RequestDone
)

ANSWERS: dict[type, tuple[type, ...]] = {
    GroupNotify: (Got, Working),
    Relay: (RelayConfirmed, NotHelping, Working),
    Join: (Joined,),
    Recruit: (Agreed,),
    Delegate: (RequestDone, NotHelping),
    Advertise: (Watchers,),
    Search: (Listed, Working),
    Measure: (Measured,),
    Keep: (RequestDone, NotHelping),
    Expect: (RequestDone, Working),
    Review: (Reviewed,),
}
"""The kinds of answers to each kind of question; `RequestDone` to all others."""


class Packet(NamedTuple):
    """A question, or the answer to the question of this number."""

    number: int
    part: Question | Answer


_wire.compile()

PacketBuffer = _wire.buffer
PART_KINDS = _wire.kinds


# --- packets on the wire ---


def encode(packet: Packet) -> bytes:
    """A packet with its length before it.

    >>> encode(Packet(7, Got(is_wanted=True))).hex(" ")
    '06 08 07 1a 02 08 01'
    """
    return _wire.encode(*packet)


def decode(data: bytes, limits: MessageLimits) -> Packet:
    """Decode one packet with its length before it, and check it against the limits."""
    return Packet(*_wire.decode(data, limits))


def wire_bytes(packet: Packet) -> int:
    """The length of `encode(packet)`."""
    return _wire.wire_bytes(*packet)
