"""The interface between a protocol and the node that owns it: calls, and delivered items."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.seam import Core, Effect, Peer


class Subscription(NamedTuple):
    """A predicate that an application subscribes to, under a number of the node."""

    number: int
    predicate: Predicate


class SubscriptionState(Enum):
    """The state of a subscription."""

    PENDING = "pending"
    """Not known to be in force, yet or any more; the node works on it."""
    IN_FORCE = "in force"
    IN_PART = "in force in part"
    """In force, except at publishers that have refused it; the application knows of these."""
    REFUSED = "refused"
    """Its only publisher has refused it."""
    LAPSED = "lapsed"
    """Unacknowledged for so long that other nodes have forgotten it."""

    @property
    def is_in_force(self) -> bool:
        """Whether it receives events, at least from some publishers."""
        return self in (SubscriptionState.IN_FORCE, SubscriptionState.IN_PART)


class Subscribed(NamedTuple):
    """A subscription is in force."""

    subscription: Subscription


class Unsubscribed(NamedTuple):
    """An unsubscribe has taken effect on all nodes that knew the subscription."""

    subscription: Subscription


class Held(NamedTuple):
    """A node's statement that it keeps an event for one of its attributes, with its evidence."""

    attribute: str
    peer: Peer
    evidence: bytes


class Published(NamedTuple):
    """The network has acknowledged an event: it survives the crash of a node that holds it."""

    id: EventId
    held: tuple[Held, ...] = ()
    """The nodes that hold it, if the protocol has their signatures."""
    kept_by: tuple[Peer, ...] = ()
    """The nodes that hold it, if the protocol knows them without a signature."""


class Confirmed(NamedTuple):
    """All nodes whose subscriptions matched an event at its publication have it."""

    id: EventId


class Refused(NamedTuple):
    """An event was refused, with the reason."""

    id: EventId
    reason: str


class Convicted(NamedTuple):
    """A peer is convicted of a lie: its signed statements contradict each other."""

    peer: Peer


class Delivery(NamedTuple):
    """An event for some of the node's subscriptions, and the number of links that it came over."""

    event: Publication
    subscriptions: tuple[int, ...]
    hops: int


class Bound(NamedTuple):
    """The size of a collection of a node, and its limit."""

    what: str
    held: int
    held_max: int


class Tally(NamedTuple):
    """The counters of a node, which are cheap to read."""

    bounds: tuple[Bound, ...]
    refused: Mapping[str, int]
    """Rejected messages, counted by reason."""


class Summary(NamedTuple):
    """Filters that a node keeps, and the summary that it announces for them."""

    members: tuple[Predicate, ...]
    shown: tuple[Predicate, ...]


class Inspection(NamedTuple):
    """A view of a node's state, for tests and checkers."""

    bounds: tuple[Bound, ...] = ()
    summaries: tuple[Summary, ...] = ()
    served: tuple[Peer, ...] = ()
    """The peers that the node keeps filters for."""


class PubSub(Core, Protocol):
    """A protocol on top of Kademlia.

    It gets the results of Kademlia as `Indication`. It delivers `Subscribed`, `Unsubscribed`,
    `Published`, `Confirmed`, `Refused` and `Delivery`.
    """

    def subscribe(self, subscription: Subscription, now: int) -> list[Effect]:
        """Add a subscription; deliver `Subscribed` when it is in force."""
        ...

    def unsubscribe(self, number: int, now: int) -> list[Effect]:
        """End a subscription at once; deliver `Unsubscribed` when all nodes have forgotten it."""
        ...

    def state_of(self, number: int, now: int) -> SubscriptionState:
        """The state of one of the node's subscriptions."""
        ...

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        """Publish an event; deliver `Published` or `Refused`.

        With `wants_all`, also deliver `Confirmed` when all subscribers have it, if possible.
        """
        ...

    def inspect(self) -> Inspection:
        """The node's state, for tests and checkers."""
        ...

    def tally(self) -> Tally:
        """The sizes of bounded collections, and the rejected messages."""
        ...

    def check(self) -> None:
        """Assert the invariants of the state; tests and `sim fuzz` call it after every input."""
        ...


class Resident(Core, Protocol):
    """A protocol that runs on a node beside the one that carries its subscriptions.

    Like every protocol, it gets the inputs that concern the whole node and the results of Kademlia.
    Of messages, timers and stored values, it gets its own. It declares its own calls.
    """

    name: str
    """The prefix of its timers and, with a slash, of its storage keys."""
    messages: tuple[type, ...]
    """The types of its messages, which no other core uses."""

    def tally(self) -> Tally:
        """The sizes of bounded collections, and the rejected messages."""
        ...
