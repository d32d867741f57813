"""Why an event arrived at a subscription, or did not.

Each node remembers the last events that it published, delivered to its application or dropped, and
since when its subscriptions are in force. The publisher's node knows what the event says and
whether the network has acknowledged it; the subscriber's node knows the rest. `why` names the cause
from what one of them or both remember.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.predicates import Predicate, explain
from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.pubsub import (
    Confirmed,
    Delivery,
    Published,
    Refused,
    Subscribed,
    Unsubscribed,
)

ATTRIBUTE_COUNT_MAX = 1_000
"""The limit for an event of another node; each node has a limit of its own."""
EVENT_COUNT_MAX = 2_000
"""The number of events that a node remembers, at about 1.5 KB each."""
EVENT_COUNT_MIN = 100
EVENT_US = 15 * MINUTE
"""How long it remembers more than the last `EVENT_COUNT_MIN`, and at most twice as long: with a
limit by number alone, the memory of a node with few events would grow for hours."""


class Cause(Enum):
    """The reason why an event arrived at a subscription, or did not."""

    DELIVERED = "delivered"
    WAITING = "waiting"
    """It waits on disk for the subscription's reader."""
    DROPPED = "dropped"
    """The application did not read fast enough."""
    NOT_MATCHED = "not-matched"
    NOT_SUBSCRIBED = "not-subscribed"
    """No such subscription is in force."""
    BEFORE_SUBSCRIPTION = "before-subscription"
    """It was published before the subscription was in force."""
    REFUSED = "refused"
    NOT_ACKNOWLEDGED = "not-acknowledged"
    """The network has not acknowledged it."""
    EXPIRED = "expired"
    """It is older than the history that the network keeps."""
    ON_ITS_WAY = "on-its-way"
    """The network has it, and the subscriber's node does not yet."""
    UNKNOWN = "unknown"
    """The nodes asked do not know the event."""


class PublishProgress(Enum):
    """How far an event has come, as its publisher's node knows."""

    UNKNOWN = "unknown"
    PENDING = "pending"
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"


class Arrival(NamedTuple):
    """An event that the node handed to the application."""

    at_us: int
    hops: int


@dataclass(slots=True)
class EventFacts:
    """The facts that a node remembers of an event."""

    id: str
    predicate: Predicate | None = None
    created_us: int = 0
    progress: PublishProgress = PublishProgress.UNKNOWN
    reason: str = ""
    """Why it was refused."""
    held: tuple[str, ...] = ()
    """The attributes whose rendezvous have acknowledged it."""
    arrivals: Mapping[int, Arrival] = field(default_factory=dict)
    """The deliveries by the number of the subscription."""
    dropped: frozenset[int] = frozenset()
    """The subscriptions that have dropped it."""

    def merged(self, published: EventFacts) -> EventFacts:
        """Add the facts of the publisher's node."""
        has_progress = published.progress is not PublishProgress.UNKNOWN
        return replace(
            self,
            predicate=self.predicate or published.predicate,
            created_us=self.created_us or published.created_us,
            progress=published.progress if has_progress else self.progress,
            reason=published.reason if has_progress else self.reason,
            held=published.held if has_progress else self.held,
        )

    def document(self) -> dict[str, Any]:
        """Convert the facts that another node needs to JSON."""
        return {
            "id": self.id,
            "predicate": None if self.predicate is None else str(self.predicate),
            "created_us": self.created_us,
            "progress": self.progress.value,
            "reason": self.reason,
            "held": list(self.held),
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> EventFacts:
        """Convert from JSON; a ValueError says what is wrong."""
        try:
            predicate = document["predicate"]
            return cls(
                str(document["id"]),
                None if predicate is None else Predicate.parse(predicate, ATTRIBUTE_COUNT_MAX),
                int(document["created_us"]),
                PublishProgress(document["progress"]),
                str(document["reason"]),
                tuple(map(str, document["held"])),
            )
        except (KeyError, TypeError, ValueError, OverflowError, SmartPubSubError) as error:
            raise ValueError(f"not what a node remembers of an event: {error}") from None


@dataclass(frozen=True)
class Why:
    """The cause, with its details."""

    cause: Cause
    detail: str
    at_us: int | None = None
    """When the event was delivered."""
    hops: int | None = None

    def document(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "cause": self.cause.value,
            "detail": self.detail,
            "at_us": self.at_us,
            "hops": self.hops,
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Why:
        """Convert from JSON."""
        cause = Cause(document["cause"])
        return cls(cause, document["detail"], document["at_us"], document["hops"])


class Tracking:
    """The facts that one node remembers of events and subscriptions."""

    def __init__(self) -> None:
        self._events: dict[str, EventFacts] = {}
        self._earlier_events: dict[str, EventFacts] = {}
        """The events of the period before, which the node forgets together."""
        self._begun_us = 0
        """When the current period began."""
        self._in_force_since: dict[int, int] = {}

    def on_publish(self, event: Publication) -> None:
        """Record that this node publishes an event."""
        self._known(event).progress = PublishProgress.PENDING

    def on_item(self, item: object, now: int) -> None:
        """Record an item that the core delivers."""
        self._forget(now)
        match item:
            case Delivery(event, numbers, hops):
                facts = self._known(event)
                arrivals = dict.fromkeys(numbers, Arrival(now, hops))
                facts.arrivals = {**arrivals, **facts.arrivals} if facts.arrivals else arrivals
            case Published(id, held):
                facts = self._noted(str(id))
                facts.progress = PublishProgress.ACKNOWLEDGED
                facts.held = tuple(dict.fromkeys([one.attribute for one in held]))
            case Confirmed(id):
                self._noted(str(id)).progress = PublishProgress.ACKNOWLEDGED
            case Refused(id, reason):
                facts = self._noted(str(id))
                facts.progress, facts.reason = PublishProgress.REFUSED, reason
            case Subscribed(subscription):
                self._in_force_since.setdefault(subscription.number, now)
            case Unsubscribed(subscription):
                self._in_force_since.pop(subscription.number, None)

    def on_drop(self, id: str, number: int) -> None:
        """Record that a subscription has dropped an event that its reader did not take."""
        facts = self._noted(id)
        facts.dropped |= {number}

    def facts(self, id: str) -> EventFacts:
        """What the node remembers of an event."""
        return self._events.get(id) or self._earlier_events.get(id) or EventFacts(id)

    def in_force_since(self, number: int) -> int | None:
        """Since when a subscription is in force; None if it is not, or from before a restart."""
        return self._in_force_since.get(number)

    def _noted(self, id: str) -> EventFacts:
        """The facts of an event, for changing them."""
        facts = self._events.get(id) or self._earlier_events.get(id)
        if facts is None:
            facts = self._events[id] = EventFacts(id)
        return facts

    def _forget(self, now: int) -> None:
        count = len(self._events)
        is_time = count >= EVENT_COUNT_MIN and now >= self._begun_us + EVENT_US
        if is_time or count >= EVENT_COUNT_MAX // 2:
            self._earlier_events, self._events = self._events, {}
            self._begun_us = now

    def _known(self, event: Publication) -> EventFacts:
        facts = self._noted(str(event.id))
        facts.predicate, facts.created_us = event.predicate, event.created_us
        return facts


class AskedSubscription(NamedTuple):
    """The subscription that a `why` is about."""

    wanted: Predicate
    numbers: Sequence[int]
    """The numbers of the node's subscriptions with this predicate."""
    in_force_since: int | None
    waiting: bool = False
    """Whether the event waits on disk for the reader."""


def why(facts: EventFacts, subscriber: AskedSubscription, now: int, history_us: int | None) -> Why:
    """Name the cause; `history_us` is how long the network keeps events, if that is known."""
    arrived = next((facts.arrivals[n] for n in subscriber.numbers if n in facts.arrivals), None)
    if arrived is not None:
        return _after_arrival(facts, subscriber, arrived)
    if facts.predicate is None:
        return Why(
            Cause.UNKNOWN,
            "the nodes asked do not remember this event; ask the node that published it",
        )
    failed = [verdict for verdict in explain(subscriber.wanted, facts.predicate) if not verdict.met]
    if failed:
        got = failed[0].got
        had = "it has no such attribute" if got is None else f"it has {got}"
        return Why(Cause.NOT_MATCHED, f"the subscription wants {failed[0].wanted}; {had}")
    if not subscriber.numbers:
        return Why(Cause.NOT_SUBSCRIBED, f"the node has no subscription {subscriber.wanted}")
    since = subscriber.in_force_since
    if since is not None and facts.created_us < since:
        return Why(
            Cause.BEFORE_SUBSCRIPTION,
            "it was published before the subscription was in force; subscribe with since= to get"
            " earlier events",
        )
    return _in_network(facts, now, history_us)


def _after_arrival(facts: EventFacts, subscriber: AskedSubscription, arrived: Arrival) -> Why:
    at, hops = arrived
    if facts.dropped.intersection(subscriber.numbers):
        detail = "the application did not read it in time, so the subscription dropped it"
        return Why(Cause.DROPPED, detail, at, hops)
    if subscriber.waiting:
        return Why(Cause.WAITING, "it waits on disk for the subscription's reader", at, hops)
    hop_text = "1 hop" if hops == 1 else f"{hops} hops"
    return Why(Cause.DELIVERED, f"it was delivered after {hop_text}", at, hops)


def _in_network(facts: EventFacts, now: int, history_us: int | None) -> Why:
    assert facts.predicate is not None
    match facts.progress:
        case PublishProgress.REFUSED:
            return Why(Cause.REFUSED, f"the network refused it: {facts.reason}")
        case PublishProgress.PENDING:
            missing = [name for name in facts.predicate.attributes if name not in facts.held]
            return Why(
                Cause.NOT_ACKNOWLEDGED,
                f"no rendezvous has acknowledged it for {', '.join(missing)}; its publisher goes on"
                " trying",
            )
        case PublishProgress.ACKNOWLEDGED if (
            history_us is None or now - facts.created_us <= history_us
        ):
            return Why(
                Cause.ON_ITS_WAY,
                "the network has it and goes on delivering it; the subscriber's node has not"
                " received it yet",
            )
        case PublishProgress.ACKNOWLEDGED:
            return Why(Cause.EXPIRED, "it is older than the history that the network keeps")
        case PublishProgress.UNKNOWN:
            return Why(
                Cause.UNKNOWN,
                "it matches, and the node asked does not know whether the network has it; ask the"
                " node that published it",
            )
