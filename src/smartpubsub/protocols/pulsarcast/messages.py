"""The messages of Pulsarcast; messages to one peer within a short time go in one parcel.

`protocols/runtime/messages.py` says how a class declares a message. The decoder does not look into
blocks: the core checks them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, NamedTuple, TypeAlias

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.protobuf import WireError
from smartpubsub.protocols.blocks import Cid, is_cid
from smartpubsub.protocols.runtime.messages import (
    Budget,
    Kind,
    ListEnvelope,
    MessageLimits,
    Unchecked,
)

_wire = ListEnvelope("pulsarcast", "Parcel")


def _read_cid(cid: bytes, _: Budget) -> Cid:
    if not is_cid(cid):
        raise WireError("bytes that are no content id")
    return cid


ContentId: TypeAlias = Annotated[Cid, Kind("bytes", _read_cid)]


class Head(NamedTuple):
    """An event that no known event links to, and its height."""

    cid: ContentId
    height: int


# --- trees ---


@_wire.message(10)
class JoinTopic(NamedTuple):
    """The sender asks to be a child in the tree of a topic."""

    topic_id: ContentId
    topic: ContentId
    """The newest version of the topic's descriptor that the sender knows."""
    below: int
    """How many nodes are below the sender already."""


@_wire.message(11)
class Welcome(NamedTuple):
    """The receiver is a child; this is the newest descriptor, and these are the newest events."""

    topic_id: ContentId
    topic: ContentId
    heads: tuple[Head, ...]


@_wire.message(12)
class JoinElsewhere(NamedTuple):
    """The receiver joins at another peer; without one, it looks up the closest to the author."""

    topic_id: ContentId
    go_to: Contact | None


@_wire.message(13)
class Wait(NamedTuple):
    """The sender looks for its own parent first, and will answer after that."""

    topic_id: ContentId


@_wire.message(14)
class Leave(NamedTuple):
    """The sender is not a child of the receiver any more."""

    topic_id: ContentId


@_wire.message(2)
class Beat(NamedTuple):
    """The sender is up, and these are its newest events."""

    topic_id: ContentId
    topic: ContentId
    heads: tuple[Head, ...]
    below: int
    wants_answer: bool


# --- events ---


@_wire.message(1)
class Spread(NamedTuple):
    """An event on its way through a tree."""

    block: Unchecked
    hops: int


@_wire.message(7, is_costly=True)
class Fetch(NamedTuple):
    """A question for events and their ancestors, except those that the sender has."""

    topic_id: ContentId
    number: int
    wanted: tuple[ContentId, ...]
    had: tuple[ContentId, ...]
    since_us: int


@_wire.message(8, is_costly=True)
class Range(NamedTuple):
    """A question for the events after a place, since a time, or for a number of the newest."""

    topic_id: ContentId
    number: int
    after: Head | None
    since_us: int
    newest: int


@_wire.message(9)
class Page(NamedTuple):
    """Some of the events that the receiver has asked for, in order."""

    topic_id: ContentId
    number: int
    blocks: tuple[Unchecked, ...]
    has_more: bool
    covered: tuple[ContentId, ...] = ()
    """Wanted events that are ancestors of the receiver's events, and so older than its log."""
    heads: tuple[Head, ...] = ()
    """On the last page: the newest events that the sender knows of, even if it lacks them."""
    gone: tuple[ContentId, ...] = ()
    """Wanted events that the sender has pruned."""


@_wire.message(15)
class WantBlocks(NamedTuple):
    """A question for descriptors of topics."""

    cids: tuple[ContentId, ...]


@_wire.message(16)
class Described(NamedTuple):
    """Descriptors of topics."""

    blocks: tuple[Unchecked, ...]


# --- keepers ---


@_wire.message(17)
class InviteKeeper(NamedTuple):
    """The receiver becomes a keeper of a topic."""

    topic_id: ContentId
    topic: ContentId


@_wire.message(3)
class KeepEvents(NamedTuple):
    """Events of a topic for a keeper."""

    topic_id: ContentId
    topic: ContentId
    blocks: tuple[Unchecked, ...]


@_wire.message(4)
class Kept(NamedTuple):
    """The sender keeps these events."""

    topic_id: ContentId
    cids: tuple[ContentId, ...]


# --- requests to publish ---


@_wire.message(5)
class PublishRequest(NamedTuple):
    """Ask the receiver to publish a draft.

    It publishes an author's drafts by `turn`, from `first_turn`, the lowest turn without an answer.
    """

    topic_id: ContentId
    start: int
    turn: int
    first_turn: int
    draft: Unchecked


@_wire.message(6)
class Granted(NamedTuple):
    """The draft is published, or refused for a reason."""

    topic_id: ContentId
    start: int
    turn: int
    refusal: str


Part: TypeAlias = (
    JoinTopic
    | Welcome
    | JoinElsewhere
    | Wait
    | Leave
    | Beat
    | Spread
    | Fetch
    | Range
    | Page
    | WantBlocks
    | Described
    | InviteKeeper
    | KeepEvents
    | Kept
    | PublishRequest
    | Granted
)


class Parcel(NamedTuple):
    """Everything that one node sends to another at once."""

    parts: tuple[Part, ...]


_wire.compile()

ParcelBuffer = _wire.buffer
PART_KINDS = _wire.kinds


# --- parcels on the wire ---

PARCEL_BYTES = 1 << 20
PARCEL_PARTS = 500
"""The limits of a parcel that a node sends, unless a single message is longer."""


PARCEL_LIMITS = MessageLimits(entry_count_max=10_000)
"""The limits of a parcel that a node receives."""


def parcels_of(queued: Iterable[Part]) -> Iterator[Parcel]:
    """The parcels that carry some messages, each of them far below the limits of a receiver."""
    parts: list[Part] = []
    size = 0
    for part in queued:
        added = _wire.size(part)
        if parts and (size + added > PARCEL_BYTES or len(parts) == PARCEL_PARTS):
            yield Parcel(tuple(parts))
            parts, size = [], 0
        parts.append(part)
        size += added
    if parts:
        yield Parcel(tuple(parts))


def encode(parcel: Parcel) -> bytes:
    """A parcel with its length before it."""
    return _wire.encode(parcel.parts)


def decode(data: bytes, limits: MessageLimits = PARCEL_LIMITS) -> Parcel:
    """Decode one parcel with its length before it, and check it against the limits."""
    return Parcel(_wire.decode(data, limits))


def decode_pieces(data: bytes) -> Iterator[Parcel]:
    """Decode one parcel as several, each of few parts."""
    return map(Parcel, _wire.decode_pieces(data, PARCEL_LIMITS))


def wire_bytes(parcel: Parcel) -> int:
    """The length of `encode(parcel)`."""
    return _wire.wire_bytes(parcel.parts)


def contacts_in(parcel: Parcel) -> Iterable[Contact]:
    """The peers that a parcel names, which its receiver may have to reach."""
    for part in parcel.parts:
        if isinstance(part, JoinElsewhere) and part.go_to is not None:
            yield part.go_to
