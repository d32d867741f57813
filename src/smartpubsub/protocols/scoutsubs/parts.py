"""What nodes say to each other. Everything for one peer within a moment goes in one bundle."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.seam import Peer

NOBODY = b""
WHOLE = -1
"""As the base of a change: there is none, this is everything."""
UNSIGNED = b""
"""What is signed is so when it is said (`vouching.py`)."""


# --- filters, upward ---


class Announce(NamedTuple):
    """A child's filters towards a rendezvous: what has changed since a version, or everything."""

    attribute: str
    incarnation: int
    version: int
    base: int
    added: tuple[Predicate, ...]
    removed: tuple[Predicate, ...]
    direct: Contact | None
    """Whoever events may be sent to straight away, past the child."""
    backups: tuple[Contact, ...]
    """Who keeps a copy of the child's own children; none if it has none."""
    is_retry: bool
    """The child could not reach whoever lies closer to the rendezvous."""
    signature: bytes = UNSIGNED
    root_ms: int = 0
    """For how long the child has taken itself for the rendezvous, until just now."""
    stage: int = 0
    """Up to which stage all that is in force below is in the attribute's branches (`branches.py`);
    0 if nothing is in force."""


class Announced(NamedTuple):
    """Up to which version a parent has a child's filters, and up to which they are in force."""

    attribute: str
    incarnation: int
    version: int
    in_force: int
    wants_whole: bool
    go_to: Contact | None
    """Who to announce to instead, since the parent has children enough."""
    signature: bytes = UNSIGNED
    stage: int = 0
    """The stage that the attribute is in: what is in force is so in all its branches."""


# --- events, up and down ---


class Raise(NamedTuple):
    """An event on its way up to the rendezvous of one of its attributes."""

    event: Publication
    attribute: str
    previous: int
    """The number of the publisher's last event before this that went the same way, or 0."""
    hops: int
    is_retry: bool
    wants_all: bool
    """Whether the publisher wants to know when everybody has it."""
    age_ms: int
    """How long ago it was published, since nobody brings an event to an end for ever."""
    is_permitted: bool = False
    """Whether the rendezvous of the attribute itself says that it may go down a branch."""


class Holder(NamedTuple):
    """Somebody who keeps an event, and its signature for that."""

    peer: Peer
    signature: bytes


class Admitted(NamedTuple):
    """The rendezvous has taken an event into its care, or says why not."""

    id: EventId
    attribute: str
    refusal: str
    signature: bytes = UNSIGNED
    holders: tuple[Holder, ...] = ()
    """The backups that keep it too."""


class Completed(NamedTuple):
    """Everybody has an event who was to get it by way of an attribute's rendezvous."""

    id: EventId
    attribute: str
    signature: bytes = UNSIGNED


class Notify(NamedTuple):
    """An event on its way down, for one attribute."""

    event: Publication
    attribute: str
    hops: int
    is_resend: bool
    on_behalf: Peer
    """Whose children to send it to, by the copy that is kept of them; usually nobody's."""


class Confirm(NamedTuple):
    """All below have an event."""

    id: EventId
    attribute: str
    on_behalf: Peer
    signature: bytes = UNSIGNED


class Offer(NamedTuple):
    """An event in its place among those that come down, which may be coming by another tree."""

    id: EventId
    attribute: str
    predicate: Predicate


class Want(NamedTuple):
    """An event that was offered does not come by another tree."""

    id: EventId
    attribute: str


class Elsewhere(NamedTuple):
    """Filters that a child has in other trees: events that match them can be offered."""

    attribute: str
    others: tuple[Predicate, ...]


class NoCopy(NamedTuple):
    """There is no copy by which an event could be passed on for somebody."""

    id: EventId
    attribute: str
    on_behalf: Peer


# --- copies ---


class ChildCopy(NamedTuple):
    """A child as its parent knows it."""

    contact: Contact
    incarnation: int
    version: int
    filters: tuple[Predicate, ...]
    direct: Contact | None
    backups: tuple[Contact, ...]


class CopyTree(NamedTuple):
    """Children of a node in one tree, for a backup to keep."""

    attribute: str
    is_root: bool
    version: int
    is_whole: bool
    children: tuple[ChildCopy, ...]
    gone: tuple[Peer, ...]
    stage: int = 0


class TreeCopied(NamedTuple):
    """A backup has a copy up to a version, or has no room for it."""

    attribute: str
    version: int
    is_full: bool


class Record(NamedTuple):
    """An event that a rendezvous has admitted, for its backups to keep until it is done."""

    event: Publication
    attribute: str
    hops: int
    wants_all: bool
    age_ms: int


class Recorded(NamedTuple):
    """A backup keeps an event, or has no room for it."""

    id: EventId
    attribute: str
    is_full: bool
    signature: bytes = UNSIGNED


class Done(NamedTuple):
    """Everybody has confirmed an event."""

    id: EventId
    attribute: str


class Pull(NamedTuple):
    """A node that is to be the rendezvous of an attribute asks those around what they know."""

    attribute: str


class Pulled(NamedTuple):
    """What a node knows of an attribute: as its rendezvous so far, or as somebody's backup."""

    attribute: str
    was_root: bool
    owner: Peer
    """Whose children these are; nobody's if there is no copy."""
    children: tuple[ChildCopy, ...]
    records: tuple[Record, ...]
    stage: int = 0


class PullOwn(NamedTuple):
    """A node that has started asks for the copies of its own trees."""


class PulledOwn(NamedTuple):
    """The copies of somebody's trees: attributes and children."""

    trees: tuple[tuple[str, tuple[ChildCopy, ...]], ...]


class Adopt(NamedTuple):
    """The sender takes the place of somebody who is gone, as the receiver's parent."""

    attribute: str
    instead_of: Peer


# --- the past ---


class Recall(NamedTuple):
    """Which events of an attribute match that come after a place in the order of their times?"""

    attribute: str
    number: int
    predicate: Predicate
    since_us: int
    after: EventId | None
    """Of that time only those that come after this one."""
    newest: int
    """Of these the newest so many; 0 for all."""
    about: EventId | None
    """If it is given nothing is asked but what is known of one event; the end of its publisher's
    id will do."""


class Recalled(NamedTuple):
    """The first of those events, in their order."""

    attribute: str
    number: int
    events: tuple[Publication, ...]
    has_more: bool
    oldest_us: int
    """Of when the oldest event is that is kept of the attribute; 0 if none is."""
    whole_us: int = 0
    """From when on I have all that anybody keeps of it; 0 if I do not know."""


class Span(NamedTuple):
    """How many events of an hour somebody keeps, and a digest of which they are."""

    since_us: int
    amount: int
    digest: int


class Inherit(NamedTuple):
    """This is what I keep of an attribute; what do you?"""

    attribute: str
    whole_us: int
    spans: tuple[Span, ...]
    is_answer: bool
    """Whether you have told me, so that I do not ask."""


# --- is anybody there ---


class Probe(NamedTuple):
    """Are you there?"""

    number: int


class Alive(NamedTuple):
    """Here, in this incarnation."""

    number: int
    incarnation: int


# --- what is too long ---


class Piece(NamedTuple):
    """A part with some of what its lists hold, of several that are one part together."""

    number: int
    """Which part it is of: the same for all its pieces, however often they are said."""
    place: int
    pieces: int
    """How many there are."""
    part: Part


Part: TypeAlias = (
    Announce
    | Announced
    | Raise
    | Admitted
    | Completed
    | Notify
    | Confirm
    | Offer
    | Want
    | Elsewhere
    | NoCopy
    | CopyTree
    | TreeCopied
    | Record
    | Recorded
    | Done
    | Pull
    | Pulled
    | PullOwn
    | PulledOwn
    | Adopt
    | Recall
    | Recalled
    | Inherit
    | Probe
    | Alive
    | Piece
)


class Bundle(NamedTuple):
    """What one node says to another at once."""

    parts: tuple[Part, ...]
