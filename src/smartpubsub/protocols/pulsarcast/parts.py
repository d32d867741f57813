"""What nodes say to each other. Everything for one peer within a moment goes in one parcel."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.blocks import Cid


class Head(NamedTuple):
    """An event that nothing is known to link to, and its height."""

    cid: Cid
    height: int


# --- trees ---


class Join(NamedTuple):
    """Let me be your child in the tree of a topic, of which this is the newest version I know."""

    room: Cid
    topic: Cid
    below: int
    """How many are below me already."""


class Welcome(NamedTuple):
    """You are my child; this is the newest version, and these are the newest events."""

    room: Cid
    topic: Cid
    heads: tuple[Head, ...]


class Elsewhere(NamedTuple):
    """Go to somebody else, or if this is nobody, find out anew who is closest to the author."""

    room: Cid
    go_to: Contact | None


class Wait(NamedTuple):
    """I am looking for my own place, and will tell you."""

    room: Cid


class Leave(NamedTuple):
    """I am not your child any more."""

    room: Cid


class Beat(NamedTuple):
    """I am here, and this is what I have."""

    room: Cid
    topic: Cid
    heads: tuple[Head, ...]
    below: int
    wants_answer: bool


# --- events ---


class Spread(NamedTuple):
    """An event on its way through a tree."""

    block: bytes
    hops: int


class Fetch(NamedTuple):
    """Send me these and what is below them, but for what I have and what is below that."""

    room: Cid
    number: int
    wanted: tuple[Cid, ...]
    had: tuple[Cid, ...]
    since_us: int


class Range(NamedTuple):
    """Send me what stands after a place, or was made since a time, or the newest so many."""

    room: Cid
    number: int
    after: Head | None
    since_us: int
    newest: int


class Page(NamedTuple):
    """Some of what you asked for, in order."""

    room: Cid
    number: int
    blocks: tuple[bytes, ...]
    has_more: bool
    covered: tuple[Cid, ...] = ()
    """What of it lies below what you have, and so came before your time."""
    heads: tuple[Head, ...] = ()
    """With the last page: what I know to be the newest, whether or not I have it."""
    gone: tuple[Cid, ...] = ()
    """What of it I have had and let go."""


class Want(NamedTuple):
    """Send me the descriptors of topics."""

    cids: tuple[Cid, ...]


class Described(NamedTuple):
    """Descriptors of topics."""

    blocks: tuple[bytes, ...]


# --- keeping ---


class Invite(NamedTuple):
    """Be one of those who keep a topic."""

    room: Cid
    topic: Cid


class Keep(NamedTuple):
    """Keep these events of a topic."""

    room: Cid
    topic: Cid
    blocks: tuple[bytes, ...]


class Kept(NamedTuple):
    """I keep these events."""

    room: Cid
    cids: tuple[Cid, ...]


# --- requests ---


class Request(NamedTuple):
    """Publish this for me, after everything from the first turn on that you have no answer to."""

    room: Cid
    start: int
    turn: int
    first_turn: int
    draft: bytes


class Granted(NamedTuple):
    """What you asked for is published, or if there is a reason, will not be."""

    room: Cid
    start: int
    turn: int
    refusal: str


Part: TypeAlias = (
    Join
    | Welcome
    | Elsewhere
    | Wait
    | Leave
    | Beat
    | Spread
    | Fetch
    | Range
    | Page
    | Want
    | Described
    | Invite
    | Keep
    | Kept
    | Request
    | Granted
)


class Parcel(NamedTuple):
    """All that is said to a peer in one moment."""

    parts: tuple[Part, ...]
