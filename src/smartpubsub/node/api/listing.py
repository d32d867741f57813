"""Descriptions of a node's subscriptions, events, topics and groups."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from smartpubsub.node.api.events import Entry
from smartpubsub.node.api.receipts import held_document
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pubsub import Held, SubscriptionState
from smartpubsub.protocols.pulsarcast import topics as descriptors

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SubscriptionInfo:
    """A subscription of a node."""

    number: int
    predicate: Predicate
    state: SubscriptionState
    is_taken: bool
    """Whether a reader has it open."""
    waiting: int
    """The number of events that wait for the reader."""
    is_kept: bool = False
    """Whether it outlives its reader, and restarts of the node."""
    dropped: int = 0
    """The number of events dropped because no reader took them."""


class EventState(Enum):
    """The state of an event, as far as one node knows."""

    PENDING = "pending"
    """This node has published it, and no rendezvous has acknowledged it yet."""
    ACKNOWLEDGED = "acknowledged"
    """The network has it."""
    CONFIRMED = "confirmed"
    """All subscribers at the time of publication have it."""
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class EventInfo:
    """An event, as far as a node knows its state."""

    id: str
    state: EventState
    held: tuple[Held, ...] = ()
    """The replicas that have acknowledged it, with their signatures."""
    reason: str = ""
    """Why it was refused."""
    key: str | None = None
    waiting_in: tuple[int, ...] = ()
    """The subscriptions of this node for whose readers it waits on disk."""

    def document(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "id": self.id,
            "state": self.state.value,
            "held": [held_document(held) for held in self.held],
            "reason": self.reason,
            "key": self.key,
            "waiting_in": list(self.waiting_in),
        }


# --- topics ---


@dataclass(frozen=True)
class Gaps:
    """The missing parts of a topic's history; false if it is complete."""

    missing: tuple[str, ...] = ()
    """The content ids of events that no keeper has."""
    let_go: tuple[str, ...] = ()
    """The content ids of events that limits have dropped; their ancestors may be missing too."""
    silent_keepers: int = 0
    """The number of keepers that have not answered; they may know newer events."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.let_go or self.silent_keepers)


class History(list[Entry]):
    """Events of a topic in its order, and what is missing."""

    def __init__(self, entries: Iterable[Entry] = (), gaps: Gaps | None = None) -> None:
        super().__init__(entries)
        self.gaps = gaps or Gaps()


class TopicBlocks(NamedTuple):
    """All blocks of a topic, in an order in which they can be verified, and what is missing."""

    roots: list[Cid]
    blocks: list[bytes]
    gaps: Gaps


class Exported(NamedTuple):
    """The result of an export to a file."""

    block_count: int
    gaps: Gaps


@dataclass(frozen=True)
class Stock:
    """The events of a topic that a node keeps."""

    event_count: int
    byte_count: int
    is_pinned: bool
    is_whole: bool
    """Whether it has all events from the first on, except those dropped by limits."""


@dataclass(frozen=True)
class KnownTopic:
    """A topic that a node knows."""

    topic: descriptors.Topic
    """The newest version that the node knows."""
    stock: Stock
    is_own: bool
    subscription_count: int
    is_kept_for_others: bool
    """Whether the node is one of the topic's keepers."""


# --- groups ---


@dataclass(frozen=True)
class JoinRequest:
    """A signed request to join a group."""

    peer_id: str
    predicates: tuple[Predicate, ...]
    region: str
    capacity: int
    signature: bytes


Accept: TypeAlias = Callable[[JoinRequest], bool | str | None]
"""Decides whether a peer may join; a text is the reason for a refusal.

None postpones the decision: the peer asks again, for up to a minute.
"""


def decided(accept: Accept, request: JoinRequest) -> str | None:
    """The reason why a peer may not join; "" if it may; None if that is not decided yet."""
    try:
        answer = accept(request)
    except Exception:  # An error of the application must not stop the node.
        _log.exception("accepting a member failed")
        return "the owner could not decide"
    if answer is None or isinstance(answer, str):
        return answer
    return "" if answer else "the owner has refused"


@dataclass(frozen=True)
class FoundGroup:
    """A group that a search has found."""

    owner: str
    """The owner's address, or its peer id alone."""
    predicate: Predicate


@dataclass(frozen=True)
class KnownGroup:
    """A group that a node owns or is a member of."""

    predicate: Predicate
    owner: str
    is_own: bool
    is_private: bool = False
    is_advertised: bool = False
    member_count: int = 0
    """Only the owner knows the last three."""


class Distrusted(NamedTuple):
    """A peer that a node has convicted, or a peer or an address prefix that it blames."""

    who: str
    """A peer id, or an address prefix."""
    convicted_by: str | None
    """The contradicting statements that it has signed, if it is convicted; else None."""
    blame: float
    """Its points of blame; they halve every hour."""
    reasons: dict[str, int]
    """How often it was blamed, by reason."""
