"""Calls, deliveries and faults of a run: the records for results and checkers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Delivery
from smartpubsub.seam import Peer


@dataclass(slots=True)
class Span:
    """A time with a start, and an end unless it lasts until the end of the run."""

    start_us: int
    end_us: int | None = None

    def holds(self, at: int) -> bool:
        """Whether a time lies in it."""
        return self.start_us <= at and (self.end_us is None or at < self.end_us)


@dataclass(slots=True, eq=False)
class SubscriptionRecord:
    """One subscription of one node."""

    node: int
    number: int
    predicate: Predicate
    called_us: int
    in_force: list[Span] = field(default_factory=list)
    """From each acknowledgement until the unsubscribe or the crash after it."""
    unsubscribe_wanted_us: int | None = None
    """When the workload has the application unsubscribe; a paused node calls later."""
    unsubscribe_called_us: int | None = None
    unsubscribe_acknowledged_us: int | None = None

    def is_in_force(self, at: int) -> bool:
        """Whether the subscription was in force at a time."""
        return any(span.holds(at) for span in self.in_force)

    def is_in_force_since(self, at: int) -> bool:
        """Whether the subscription was in force from a time to the end of the run."""
        return any(span.end_us is None and span.start_us <= at for span in self.in_force)

    def interrupt(self, now: int) -> None:
        """End the time in force, if the subscription is in force."""
        if self.in_force and self.in_force[-1].end_us is None:
            self.in_force[-1].end_us = now


@dataclass(slots=True, eq=False)
class EventRecord:
    """One accepted call of publish."""

    id: EventId
    node: int
    predicate: Predicate
    called_us: int
    acknowledged_us: int | None = None
    holders: tuple[tuple[Peer, ...], ...] = ()
    """The nodes that hold it by the acknowledgement, in one group for each attribute; none if the
    protocol does not report them."""
    refused: str | None = None
    through: int | None = None
    """The only node that may publish it, if its author has to send a request."""
    first_copies: int = 0
    """How many copies came straight from its publisher."""
    crossings: int = 0
    """How many copies came from another region."""


class DeliveryRecord(NamedTuple):
    """An event that a node delivered to its application."""

    at_us: int
    node: int
    incarnation: int
    id: EventId
    subscriptions: tuple[int, ...]
    hops: int


class Split(NamedTuple):
    """A partition: the nodes on one side, and its start and end."""

    group: frozenset[int]
    start_us: int
    end_us: int


class Disturbance(NamedTuple):
    """A fault after which events may take another path: its nodes, its start and its end."""

    kind: str
    """crash, leave, restart, pause or clog."""
    nodes: tuple[int, ...]
    start_us: int
    end_us: int


@dataclass(slots=True)
class Journal:
    """All records of a run, in the order of time."""

    subscriptions: dict[tuple[int, int], SubscriptionRecord] = field(default_factory=dict)
    """The subscriptions by node and number."""
    events: dict[EventId, EventRecord] = field(default_factory=dict)
    deliveries: list[DeliveryRecord] = field(default_factory=list)
    downs: dict[int, list[Span]] = field(default_factory=dict)
    """When nodes were down."""
    failures: list[tuple[int, int]] = field(default_factory=list)
    """When a node crashed, was paused or had a link clogged, which its peers cannot distinguish."""
    splits: list[Split] = field(default_factory=list)
    disturbances: list[Disturbance] = field(default_factory=list)
    """All faults after which events may take another path, except splits."""
    handlers: dict[Peer, dict[int, None]] | None = None
    """By publisher, the failing nodes that sent, got or were sent any of its events.

    None if that was not recorded.
    """
    lost_us: list[int] = field(default_factory=list)
    """When messages were lost on their way; a message to a node that is down is not among them."""
    wire_duplicates: int = 0
    ended_us: int = 0

    def subscribed(self, node: int, number: int, now: int) -> None:
        """Record the acknowledgement of a subscription, the first one or one after a restart."""
        record = self.subscriptions[node, number]
        if record.unsubscribe_called_us is None and not record.is_in_force(now):
            record.in_force.append(Span(now))

    def unsubscribe(self, node: int, number: int, now: int, wanted_us: int | None = None) -> None:
        """Record that a node's application has unsubscribed."""
        record = self.subscriptions[node, number]
        record.unsubscribe_called_us = now
        record.unsubscribe_wanted_us = now if wanted_us is None else wanted_us
        record.interrupt(now)

    def unsubscribed(self, node: int, number: int, now: int) -> None:
        """Record the acknowledgement of an unsubscribe."""
        self.subscriptions[node, number].unsubscribe_acknowledged_us = now

    def delivered(self, node: int, incarnation: int, delivery: Delivery, now: int) -> None:
        """Record the delivery of an event to an application."""
        self.deliveries.append(
            DeliveryRecord(
                now,
                node,
                incarnation,
                delivery.event.id,
                delivery.subscriptions,
                delivery.hops,
            )
        )

    def stopped(self, node: int, now: int, kind: str = "crash") -> None:
        """Record that a node is down, and none of its subscriptions in force.

        A node that leaves says goodbye, so its peers need no failure detector.
        """
        if kind == "crash":
            self.failures.append((now, node))
        self.disturbances.append(Disturbance(kind, (node,), now, now))
        self.downs.setdefault(node, []).append(Span(now))
        for record in self.subscriptions.values():
            if record.node == node:
                record.interrupt(now)

    def restarted(self, node: int, now: int) -> None:
        """Record that a node is up again."""
        self.disturbances.append(Disturbance("restart", (node,), now, now))
        self.downs[node][-1].end_us = now

    def may_handle(self, publisher: Peer, nodes: Iterable[int]) -> bool:
        """Whether one of some failing nodes may handle a peer's events, as far as is known."""
        if self.handlers is None:
            return True
        handlers = self.handlers.get(publisher, {})
        return any(node in handlers for node in nodes)

    def was_up(self, node: int, since: int) -> bool:
        """Whether a node was up from a time on until the end of the run.

        After a pause, calls and a restart that were due meanwhile come at one time.
        """
        return all(
            span.end_us is not None and span.end_us <= since and span.start_us < since
            for span in self._downs(node)
        )

    def is_gone(self, node: int) -> bool:
        """Whether a node crashed for good."""
        return any(span.end_us is None for span in self._downs(node))

    def _downs(self, node: int) -> list[Span]:
        return self.downs.get(node, [])
