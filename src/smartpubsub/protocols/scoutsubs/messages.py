"""The messages of ScoutSubs; messages to one peer within a short time go in one bundle.

`protocols/runtime/messages.py` says how a class declares a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, TypeAlias

from smartpubsub.kademlia.keys import Contact, field_bytes
from smartpubsub.kademlia.protobuf import WireError
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.runtime.messages import (
    Budget,
    Digest,
    Duration,
    Evidence,
    Few,
    Kind,
    ListEnvelope,
    MessageLimits,
    PeerId,
    Signature,
    at_most,
    attribute,
    kind_of,
    number,
    number_size,
)
from smartpubsub.protocols.scoutsubs.shard_names import EPOCH_MAX, attribute_of

NO_PEER = b""
"""The value of a field that names no peer."""
WHOLE = -1
"""The base of an announcement that has all filters, and no change since a version."""
NO_EVIDENCE = b""
"""Statements get their evidence when they are sent (`attestation.py`)."""
RANGE_COUNT_MAX = 64
"""How many events one acknowledgement may cover."""
HOPS_MAX = 1 << 16
"""The decoder lowers larger numbers, so that later nodes can add to them."""

_wire = ListEnvelope("scoutsubs", "Bundle")


# --- types of fields ---


def _read_tree_name(name: str, _: Budget) -> str:
    return _checked_tree_name(name)


@lru_cache(maxsize=1 << 10)
def _checked_tree_name(name: str) -> str:
    attribute(attribute_of(name))
    return name


def _read_epoch(epoch: int, _: Budget) -> int:
    if epoch > EPOCH_MAX:
        raise WireError(f"a shard epoch of {epoch}; at most {EPOCH_MAX} is taken")
    return epoch


def _read_more(more: int, budget: Budget) -> int:
    if more >= RANGE_COUNT_MAX:
        raise WireError(f"an acknowledgement of {more + 1} events; at most {RANGE_COUNT_MAX}")
    budget.spend(more)
    return more


TreeName: TypeAlias = Annotated[str, Kind("string", _read_tree_name)]
"""The name of an attribute's tree, or of a branch of it."""
ShardEpoch: TypeAlias = Annotated[int, Kind("uint64", _read_epoch)]
Hops: TypeAlias = Annotated[int, at_most(HOPS_MAX)]
More: TypeAlias = Annotated[int, Kind("uint64", _read_more)]
"""How many events with consecutive numbers a message covers after the one that it names."""
Base: TypeAlias = Annotated[
    int,
    Kind(
        "uint64",
        lambda value, budget: number(value, budget) - 1,
        lambda base: base + 1,
        lambda base: number_size(base + 1),
    ),
]
"""A version; on the wire one more than that, so that `WHOLE` is 0 and is not written."""


# --- filters, upward ---


@_wire.message(5)
class Announce(NamedTuple):
    """A child's filters towards a rendezvous: all of them, or the change since a version."""

    attribute: TreeName
    incarnation: int
    version: int
    base: Base
    added: tuple[Predicate, ...]
    removed: tuple[Predicate, ...]
    shortcut: Contact | None
    """The peer that the parent may send events to directly, past the child."""
    backups: Few[Contact]
    """The peers that keep a replica of the child's own children; none if it has no children."""
    is_retry: bool
    """The child could not reach the peer that lies closer to the rendezvous."""
    root_ms: Duration = 0
    """For how long the child has acted as the rendezvous, until just now."""
    epoch: ShardEpoch = 0
    """The shard epoch up to which all filters in force below the child are in every shard; 0 if
    none is in force."""


@_wire.message(6)
class Announced(NamedTuple):
    """The version of a child's filters that the parent has, and the version that is in force."""

    attribute: TreeName
    incarnation: int
    version: int
    in_force: int
    wants_whole: bool
    go_to: Contact | None
    """The peer to announce to instead, because the parent has enough children."""
    epoch: ShardEpoch = 0
    """The shard epoch of the attribute: filters in force are in force in all its shards."""


# --- events, up and down ---


@_wire.message(3, "raised")  # `raise` is a keyword of many languages.
class Raise(NamedTuple):
    """An event on its way up to the rendezvous of one of its attributes."""

    event: Publication
    attribute: TreeName
    previous: int
    """The number of the publisher's previous event in the same tree, or 0."""
    hops: Hops
    is_retry: bool
    wants_all: bool
    """Whether the publisher wants to know when all subscribers have the event."""
    age_ms: Duration
    """How long ago the event was published: nodes give up on old events."""
    is_permitted: bool = False
    """Whether the rendezvous of the attribute permits a shard to admit the event."""


class Holder(NamedTuple):
    """A peer that keeps an event, and its evidence for that."""

    peer: PeerId
    evidence: Evidence


@_wire.message(4)
class Admitted(NamedTuple):
    """The rendezvous acknowledges an event, or says why it refuses it."""

    id: EventId
    attribute: TreeName
    refusal: str
    evidence: Evidence = NO_EVIDENCE
    holders: Few[Holder] = ()
    """The backups that keep the event too."""
    more: More = 0


@_wire.message(12)
class Completed(NamedTuple):
    """All subscribers that an attribute's rendezvous serves have an event."""

    id: EventId
    attribute: TreeName


@_wire.message(1)
class Notify(NamedTuple):
    """An event on its way down, for one attribute."""

    event: Publication
    attribute: TreeName
    hops: Hops
    is_resend: bool
    on_behalf: PeerId
    """The peer whose children get the event from a replica of its table; usually `NO_PEER`."""


@_wire.message(2)
class Confirm(NamedTuple):
    """All peers below have an event."""

    id: EventId
    attribute: TreeName
    on_behalf: PeerId
    more: More = 0


@_wire.message(21)
class Offer(NamedTuple):
    """An event's id and predicate, in its place in a tree; another tree may bring the event."""

    id: EventId
    attribute: TreeName
    predicate: Predicate


@_wire.message(22)
class Want(NamedTuple):
    """A request for an offered event that no other tree has brought."""

    id: EventId
    attribute: TreeName


@_wire.message(23)
class Elsewhere(NamedTuple):
    """Filters that a child has in other trees: the parent can offer events that match them."""

    attribute: TreeName
    others: tuple[Predicate, ...]


@_wire.message(15)
class NoCopy(NamedTuple):
    """The receiver of an event on behalf of a peer has no replica of the peer's children."""

    id: EventId
    attribute: TreeName
    on_behalf: PeerId


# --- replication ---


class ChildCopy(NamedTuple):
    """A child as its parent knows it."""

    contact: Contact
    incarnation: int
    version: int
    filters: tuple[Predicate, ...]
    shortcut: Contact | None
    backups: Few[Contact]


@_wire.message(13)
class CopyTree(NamedTuple):
    """Children of a node in one tree, for a backup to keep."""

    attribute: TreeName
    is_root: bool
    version: int
    is_whole: bool
    children: tuple[ChildCopy, ...]
    gone: tuple[PeerId, ...]
    epoch: ShardEpoch = 0


@_wire.message(14)
class TreeCopied(NamedTuple):
    """A backup has a replica up to a version, or has no room for it."""

    attribute: TreeName
    version: int
    is_full: bool


@_wire.message(9)
class Record(NamedTuple):
    """An event that a rendezvous has admitted, for its backups to keep until it is done."""

    event: Publication
    attribute: TreeName
    hops: Hops
    wants_all: bool
    age_ms: Duration


@_wire.message(10)
class Recorded(NamedTuple):
    """A backup keeps an event, or has no room for it."""

    id: EventId
    attribute: TreeName
    is_full: bool
    evidence: Evidence = NO_EVIDENCE
    more: More = 0


@_wire.message(11)
class Done(NamedTuple):
    """All peers have confirmed an event; from its publisher to a keeper: a rendezvous has it."""

    id: EventId
    attribute: TreeName
    more: More = 0


@_wire.message(16)
class Pull(NamedTuple):
    """A node that becomes the rendezvous of an attribute asks its neighbours what they know."""

    attribute: TreeName


@_wire.message(17)
class Pulled(NamedTuple):
    """A node's state of an attribute: as its rendezvous so far, or as a backup."""

    attribute: TreeName
    was_root: bool
    owner: PeerId
    """The parent of these children; `NO_PEER` if there is no replica."""
    children: tuple[ChildCopy, ...]
    records: tuple[Record, ...]
    epoch: ShardEpoch = 0


@_wire.message(18)
class PullOwn(NamedTuple):
    """A node that has started asks for the replicas of its own trees."""


class _Tree(NamedTuple):
    attribute: TreeName
    children: tuple[ChildCopy, ...]


_TREE = kind_of(_Tree)
Tree: TypeAlias = Annotated[
    tuple[str, tuple[ChildCopy, ...]],
    _TREE._replace(read=lambda buffer, budget: tuple(_TREE.read(buffer, budget))),
]
"""An attribute and the children in its tree."""


@_wire.message(19)
class PulledOwn(NamedTuple):
    """The replicas of a node's trees."""

    trees: tuple[Tree, ...]


@_wire.message(20)
class Adopt(NamedTuple):
    """The sender takes the place of a peer that is gone, as the receiver's parent."""

    attribute: TreeName
    instead_of: PeerId


# --- history ---


@_wire.message(25, is_costly=True)
class Recall(NamedTuple):
    """A question for the events of an attribute that match, after a place in their order."""

    attribute: TreeName
    number: int
    predicate: Predicate
    since_us: int
    after: EventId | None
    """Of the events of that time, only those that come after this one."""
    newest: int
    """Only this many of the newest; 0 for all."""
    about: EventId | None
    """If given, the question is for this one event; the end of its publisher's id is enough."""


@_wire.message(26)
class Recalled(NamedTuple):
    """The first of those events, in their order."""

    attribute: TreeName
    number: int
    events: tuple[Publication, ...]
    has_more: bool
    oldest_us: int
    """The time of the oldest event that the sender keeps of the attribute; 0 if it keeps none."""
    whole_us: int = 0
    """The time since which the sender has every event that any node keeps; 0 if unknown."""


class Span(NamedTuple):
    """How many events of an hour a node keeps, and a digest of their ids."""

    since_us: int
    amount: int
    digest: Digest


@_wire.message(27)
class Inherit(NamedTuple):
    """Digests of the sender's history of an attribute, for anti-entropy."""

    attribute: TreeName
    whole_us: int
    spans: tuple[Span, ...]
    is_answer: bool
    """Whether the receiver has sent its own spans, so the sender does not ask for them."""


# --- audits ---


@_wire.message(28)
class KeepForAudits(NamedTuple):
    """An event for a keeper of a tree, from its publisher; subscribers may ask for it."""

    event: Publication
    attribute: TreeName
    wants_answer: bool = False
    """Whether the keeper is to answer with `Recorded`."""


@_wire.message(29, is_costly=True)
class Audit(NamedTuple):
    """A subscriber asks a keeper for the events that it has missed."""

    attribute: TreeName
    number: int
    filters: Few[Predicate]
    age_ms: Duration
    """The question is for events that reached the keeper at most this long ago,"""
    grace_ms: Duration
    """and at least this long ago: the tree may still bring later ones."""
    had: tuple[Digest, ...]
    """Digests of the ids of events that the subscriber has."""


class Missed(NamedTuple):
    """An event, and how long ago it reached the keeper."""

    event: Publication
    age_ms: Duration


@_wire.message(30)
class Audited(NamedTuple):
    """The events that a subscriber has missed, as far as a keeper knows."""

    attribute: TreeName
    number: int
    missed: tuple[Missed, ...]
    has_more: bool
    question: Signature = b""
    """A hash of the question, if the answer is signed. It states: of the events that the keeper
    keeps at places from `first` to `last`, the question asks for the missed ones."""
    incarnation: int = 0
    first: int = 0
    last: int = 0
    evidence: Evidence = NO_EVIDENCE


@_wire.message(31)
class KeptAt(NamedTuple):
    """A keeper's signed statement at which place it keeps an event."""

    id: EventId
    attribute: TreeName
    incarnation: int
    place: int
    digest: Signature
    """The digest of the event: a lying publisher gives one id to several."""
    evidence: Evidence = NO_EVIDENCE


class SignedAnswer(NamedTuple):
    """A question and the signed answer of a keeper."""

    keeper: PeerId
    attribute: TreeName
    filters: tuple[Predicate, ...]
    had: tuple[Digest, ...]
    incarnation: int
    first: int
    last: int
    missed: tuple[Digest, ...]
    """Digests of the ids of the events that the answer has named."""
    evidence: Evidence


@_wire.message(32)
class Accuse(NamedTuple):
    """A subscriber tells a publisher that a keeper has left an event out of an answer."""

    id: EventId
    answer: SignedAnswer


@_wire.message(33)
class Convict(NamedTuple):
    """A keeper has signed that it keeps an event, and an answer that leaves the event out."""

    event: Publication
    place: int
    evidence: Evidence
    """Evidence that it keeps the event at this place."""
    answer: SignedAnswer


# --- failure detector ---


@_wire.message(7)
class Probe(NamedTuple):
    """A question whether the receiver is up."""

    number: int


@_wire.message(8)
class Alive(NamedTuple):
    """The answer to a probe, with the sender's incarnation."""

    number: int
    incarnation: int


# --- fragments ---


def _read_fragment(buffer: Any, budget: Budget) -> Part:
    if buffer.WhichOneof("part") in (None, "piece"):
        raise WireError("a piece of no part")
    message: Part = _wire.read(buffer, budget)
    return message


Fragment: TypeAlias = Annotated[
    "Part", Kind("Part", _read_fragment, _wire.write, lambda part: field_bytes(_wire.size(part)))
]


@_wire.message(24)
class Piece(NamedTuple):
    """A message with some of the entries of its lists: one of several fragments."""

    number: int
    """The number of the whole message: the same in all its fragments, also in retransmissions."""
    place: int
    pieces: int
    """How many fragments there are."""
    part: Fragment


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
    | KeepForAudits
    | Audit
    | Audited
    | KeptAt
    | Accuse
    | Convict
    | Probe
    | Alive
    | Piece
)


class Bundle(NamedTuple):
    """Everything that one node sends to another at once."""

    parts: tuple[Part, ...]


_wire.compile()

BundleBuffer = _wire.buffer
PART_KINDS = _wire.kinds


# --- bundles on the wire ---


def encode(bundle: Bundle) -> bytes:
    """A bundle with its length before it.

    >>> encode(Bundle((Pull("surf"),))).hex(" ")
    '0b 0a 09 82 01 06 0a 04 73 75 72 66'
    """
    return _wire.encode(bundle.parts)


def encode_lone(part: Part) -> bytes:
    """A bundle of one message with its length before it."""
    return _wire.encode((part,))


def decode(data: bytes, limits: MessageLimits) -> Bundle:
    """Decode one bundle with its length before it, and check it against the limits."""
    return Bundle(_wire.decode(data, limits))


def decode_pieces(data: bytes, limits: MessageLimits) -> Iterator[Bundle]:
    """Decode one bundle as several, each of few parts."""
    return map(Bundle, _wire.decode_pieces(data, limits))


def wire_bytes(bundle: Bundle) -> int:
    """The length of `encode(bundle)`."""
    return _wire.wire_bytes(bundle.parts)


def part_bytes(part: Part) -> bytes:
    """One message as it stands in a bundle."""
    return _wire.write(part)


_WITH_EVENT = frozenset({Notify, Raise, Record, KeepForAudits})


def event_bytes_in(part: Part) -> int:
    """How many bytes of events a message brings."""
    kind = type(part)
    if kind in _WITH_EVENT:
        return part.event.wire_bytes  # type: ignore[union-attr]
    if isinstance(part, Recalled):
        return sum([event.wire_bytes for event in part.events])
    if isinstance(part, Audited):
        return sum([missed.event.wire_bytes for missed in part.missed])
    return 0


def entry_bytes(entry: Predicate | ChildCopy | Record | bytes | tuple[Any, ...]) -> int:
    """The length of an entry of a list in a message."""
    if isinstance(entry, bytes):
        return field_bytes(len(entry))
    size = _TREE.size if type(entry) is tuple else kind_of(type(entry)).size
    return size(entry)
