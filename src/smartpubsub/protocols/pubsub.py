"""What every protocol is to the node that owns it: what it can be asked for, and what it tells."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.seam import Core, Effect, Peer


class Subscription(NamedTuple):
    """What an application wants, under a number that is the node's own."""

    number: int
    predicate: Predicate


class SubscriptionState(Enum):
    """How far a subscription has come."""

    PENDING = "pending"
    """Not, or not any more, known to be in force; the node is working on it."""
    IN_FORCE = "in force"
    IN_PART = "in force in part"
    """In force, but for publishers that do not want it, as the application was told."""
    REFUSED = "refused"
    """The one publisher that it is for does not want it."""
    LAPSED = "lapsed"
    """Not known to be in force for so long that others have forgotten it."""

    @property
    def is_in_force(self) -> bool:
        """Whether events come for it, be it from some only."""
        return self in (SubscriptionState.IN_FORCE, SubscriptionState.IN_PART)


class Subscribed(NamedTuple):
    """A subscription is in force."""

    subscription: Subscription


class Unsubscribed(NamedTuple):
    """An unsubscribe has taken effect wherever the subscription was known."""

    subscription: Subscription


class Held(NamedTuple):
    """Somebody keeps an event for the sake of one of its attributes, and has signed that."""

    attribute: str
    peer: Peer
    signature: bytes


class Published(NamedTuple):
    """An event is in the care of the network: whoever acknowledges may crash."""

    id: EventId
    held: tuple[Held, ...] = ()
    """By whom, where the protocol can tell."""


class Confirmed(NamedTuple):
    """Everybody has an event who wanted it when it was published."""

    id: EventId


class Refused(NamedTuple):
    """An event was not taken, and why."""

    id: EventId
    reason: str


class Delivery(NamedTuple):
    """An event for some of the node's subscriptions, and over how many links it came."""

    event: Publication
    subscriptions: tuple[int, ...]
    hops: int


class Bound(NamedTuple):
    """How much of something a node keeps, and the most that it may."""

    what: str
    held: int
    held_max: int


class Tally(NamedTuple):
    """What a node has counted, which is quickly said."""

    bounds: tuple[Bound, ...]
    refused: Mapping[str, int]
    """What was not taken from others, by reason."""


class Summary(NamedTuple):
    """Filters that a node keeps, and those that it shows to others in their place."""

    members: tuple[Predicate, ...]
    shown: tuple[Predicate, ...]


class Inspection(NamedTuple):
    """What an onlooker may want to know of a node's state."""

    bounds: tuple[Bound, ...] = ()
    summaries: tuple[Summary, ...] = ()
    served: tuple[Peer, ...] = ()
    """The peers that the node keeps filters for."""


class PubSub(Core, Protocol):
    """A protocol that stands on Kademlia.

    What Kademlia delivers comes to it as `Told`. It delivers `Subscribed`, `Unsubscribed`,
    `Published`, `Confirmed`, `Refused` and `Delivery`.
    """

    def subscribe(self, subscription: Subscription, now: int) -> list[Effect]:
        """Take a new subscription; `Subscribed` comes when it is in force."""
        ...

    def unsubscribe(self, number: int, now: int) -> list[Effect]:
        """End a subscription; nothing is delivered to it any more, and `Unsubscribed` comes."""
        ...

    def state_of(self, number: int, now: int) -> SubscriptionState:
        """How far one of the node's subscriptions has come."""
        ...

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        """Send an event on its way; `Published` or `Refused` comes.

        If it is wanted to know when all have it, `Confirmed` comes, where the protocol can tell.
        """
        ...

    def inspect(self) -> Inspection:
        """The node's state for an onlooker."""
        ...

    def tally(self) -> Tally:
        """How much there is of what has limits, and what was refused."""
        ...

    def check(self) -> None:
        """Assert the invariants of the state; tests and `sim fuzz` call it after every input."""
        ...


class Resident(Core, Protocol):
    """A protocol that lives on a node beside the one that carries its subscriptions.

    It is told what happens to the node and what Kademlia delivers, as every protocol is; messages,
    timers and stored values reach it if they are its own. What users ask of it is its own affair.
    """

    name: str
    """What its timers and, with a slash after it, its storage keys begin with."""
    messages: tuple[type, ...]
    """The types of its messages, which nobody else has."""

    def tally(self) -> Tally:
        """How much there is of what has limits, and what was refused."""
        ...
