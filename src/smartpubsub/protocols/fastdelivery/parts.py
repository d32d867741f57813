"""What nodes say to each other: questions, and answers under the same number."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import Publication
from smartpubsub.seam import Peer


class GroupId(NamedTuple):
    """Whose group it is, and what may be published in it."""

    owner: Peer
    predicate: Predicate


# --- what is signed ---


class Notice(NamedTuple):
    """That there is a group, said by its owner."""

    contact: Contact
    predicate: Predicate
    signature: bytes

    @property
    def id(self) -> GroupId:
        """Which group it is about."""
        return GroupId(self.contact.peer, self.predicate)


class Request(NamedTuple):
    """What somebody wants and offers, said by itself."""

    contact: Contact
    predicates: tuple[Predicate, ...]
    """All that it wants of a group; nothing if it leaves."""
    region: str
    capacity: int
    version: int
    """A later request of the same peer has a higher one."""
    signature: bytes


@lru_cache(maxsize=1 << 14)
def canonical_text(predicate: Predicate) -> str:
    """The one text of a predicate, however it was written."""
    return str(predicate.canonical())


def notice_bytes(predicate: Predicate) -> bytes:
    """What an owner signs of a notice; who it is shows in the signature."""
    return b"smartpubsub-group:" + canonical_text(predicate).encode()


def request_bytes(request: Request) -> bytes:
    """What a subscriber signs of a request, which has no signature yet."""
    wanted = "\n".join(map(canonical_text, request.predicates))
    said = f"{wanted}\n{request.region}\n{request.capacity}\n{request.version}"
    return b"smartpubsub-join:" + said.encode()


def invitation_bytes(group: Predicate, invited: Peer) -> bytes:
    """What the owner of a private group signs for somebody who may join it."""
    return b"smartpubsub-invitation:" + canonical_text(group).encode() + b"\n" + invited


# --- boards ---


def place_on_board(group: GroupId) -> tuple[Peer, str]:
    """By what the groups on a board are in order."""
    return group.owner, canonical_text(group.predicate)


def digest_of(groups: Iterable[GroupId]) -> bytes:
    """The same for the same groups, whoever lists them and in which order."""
    digest = sha256()
    for owner, text in sorted(map(place_on_board, groups)):
        for field in (owner, text.encode()):
            digest.update(len(field).to_bytes(4, "big") + field)
    return digest.digest()


class Advertise(NamedTuple):
    """A group for the board of one of its attributes."""

    attribute: str
    notice: Notice
    after: Peer
    """From whom on those who wait for such a group are wanted, in the order of peers."""


class Watched(NamedTuple):
    """A search that lasts, and for how long yet."""

    request: Request
    life_s: int


class Watchers(NamedTuple):
    """Who waits for such a group."""

    watched: tuple[Watched, ...]
    is_more: bool
    closer: tuple[Contact, ...]
    """Who else ought to keep the board, and lies closer to its attribute."""
    refusal: str = ""
    """Why the group is not on the board; nothing if it is."""


class Search(NamedTuple):
    """Which groups are there for a predicate, under one of its attributes."""

    attribute: str
    predicate: Predicate
    watch: Request | None
    """By whom groups that come later are wanted too."""
    after_group: GroupId | None
    """From which group on, in the order of the board."""
    known: bytes
    """The digest of what somebody else has listed: who would list the same lists nothing."""


class Listed(NamedTuple):
    """Groups on a board."""

    notices: tuple[Notice, ...]
    is_more: bool
    closer: tuple[Contact, ...]
    """Who else ought to keep the board, and lies closer to its attribute."""
    refusal: str = ""
    """Why this says nothing of the board, or will not tell of later groups."""


class Unwatch(NamedTuple):
    """A search that lasted is over."""

    attribute: str
    predicate: Predicate


class Posted(NamedTuple):
    """A group on a board, and for how long yet."""

    notice: Notice
    life_s: int


class CopyBoard(NamedTuple):
    """What a board holds, for somebody who ought to hold it too."""

    attribute: str
    posted: tuple[Posted, ...]
    watched: tuple[Watched, ...]


class Pull(NamedTuple):
    """Whoever has come to keep a board asks those around what is on it; copies come first."""

    attribute: str


class Invite(NamedTuple):
    """A group that somebody waited for is there."""

    notice: Notice


# --- members ---


class Join(NamedTuple):
    """Somebody joins a group, stays in it, wants other things of it, or leaves."""

    group: Predicate
    request: Request
    invitation: bytes


class Joined(NamedTuple):
    """The member is served as it wants, or the owner does not want it."""

    refusal: str
    """Why not; nothing if it is a member."""


class Measure(NamedTuple):
    """How far is it to these peers?"""

    landmarks: tuple[Contact, ...]


class Measured(NamedTuple):
    """The round trips in microseconds, in the order of the peers; 0 for no answer."""

    round_trips: tuple[int, ...]


# --- helpers ---


class Charge(NamedTuple):
    """A member in a helper's care."""

    contact: Contact
    predicates: tuple[Predicate, ...]


class Recruit(NamedTuple):
    """Would you serve so many members of this group?"""

    group: Predicate
    term: int
    """Under which the helper is known from then on."""
    wanted: int


class Agreed(NamedTuple):
    """So many; none if the candidate declines."""

    granted: int


class Delegate(NamedTuple):
    """Members that a helper has to serve from now on, as they are now, and some no longer."""

    group: Predicate
    term: int
    version: int
    """What a later one says of somebody counts, whichever comes first."""
    charges: tuple[Charge, ...]
    gone: tuple[Peer, ...]


class Release(NamedTuple):
    """A helper is not needed any more."""

    group: Predicate
    term: int


class NotHelping(NamedTuple):
    """Whoever was asked is no helper under this term, or has no room for an event to keep."""


# --- events ---


class Turn(NamedTuple):
    """Which event is to come to a member before another one."""

    peer: Peer
    prior: int


class Relay(NamedTuple):
    """An event for a helper and those in its care who want it."""

    group: Predicate
    term: int
    event: Publication
    only: tuple[Peer, ...]
    """For these alone; for all if there are none."""
    is_resend: bool
    turns: tuple[Turn, ...] = ()
    """For whom it is to come after another, which may come by another way."""


class Working(NamedTuple):
    """Not everybody has confirmed an event yet."""


class Confirmed(NamedTuple):
    """Everybody has the event, but for some who do not answer."""

    unreached: tuple[Peer, ...]


class Notify(NamedTuple):
    """An event for a member."""

    group: Predicate
    event: Publication
    hops: int
    is_resend: bool
    prior: int = 0
    """The number of the publisher's event that is to come before; 0 if links see to that."""


class Got(NamedTuple):
    """The member has the event."""

    is_wanted: bool
    """Whether it is a member at all."""


class Expect(NamedTuple):
    """Is this event of yours, which is to come before others, on its way to me?"""

    incarnation: int
    number: int


class Keep(NamedTuple):
    """An event for somebody who does not answer now."""

    peer: Peer
    group: Predicate
    event: Publication


# --- anything ---


class Ping(NamedTuple):
    """Are you there?"""


class Done(NamedTuple):
    """It is done, or yes."""


Question: TypeAlias = (
    Notify
    | Relay
    | Join
    | Recruit
    | Delegate
    | Release
    | Advertise
    | Search
    | Unwatch
    | CopyBoard
    | Pull
    | Invite
    | Measure
    | Keep
    | Expect
    | Ping
)
Answer: TypeAlias = (
    Got | Confirmed | Working | NotHelping | Joined | Agreed | Watchers | Listed | Measured | Done
)


class Packet(NamedTuple):
    """A question, or the answer to the question of this number."""

    number: int
    part: Question | Answer
