"""What checkers know of a run, and what several of them work out of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Inspection
from smartpubsub.seam import Peer
from smartpubsub.sim.judging.journal import DeliveryRecord, EventRecord, Journal, SubscriptionRecord
from smartpubsub.sim.judging.oracle import REFRESH_US, UNDER_WAY_US, Oracle, expected_pairs

Listener: TypeAlias = tuple[Peer, int, int]
"""A publisher, and the node and the number of a subscription that gets events of it."""


@dataclass(kw_only=True)
class Facts:
    """A run that is over, and what its protocol promises."""

    journal: Journal
    oracle: Oracle
    """One that knows all the journal's subscriptions."""
    is_reliable: bool
    """Whether the protocol promises that nothing gets lost."""
    promises_order: bool
    """Whether a publisher's events are to come in its order while nothing fails."""
    chained: bool = False
    """Whether they are to come in its order whatever fails."""
    unordered: frozenset[Predicate] = frozenset()
    """The topics whose subscriptions are promised no order, although others are."""
    has_faults: bool = False
    """Whether anything was made to fail, messages that the network loses included."""
    failures_max: int | None = None
    """How many nodes may fail within one repair time for nothing to be lost; None for any."""
    repair_us: int = MINUTE
    refresh_us: int = REFRESH_US
    unsubscribe_us_max: int = MINUTE
    under_way_us: int = UNDER_WAY_US
    """How long an event may usually be under way, and so be lost with what fails meanwhile."""
    inspections: Sequence[tuple[int, int, Inspection]] = ()
    """What looks into nodes have shown: when, into which node, and what."""
    nodes_by_peer: Mapping[Peer, int] = field(default_factory=dict)

    @cached_property
    def expected(self) -> dict[EventId, dict[int, None]]:
        """Which nodes are owed each event."""
        return expected_pairs(self.journal, self.oracle, self.refresh_us)

    @cached_property
    def first_deliveries(self) -> dict[EventId, dict[int, DeliveryRecord]]:
        """What every node was first told of every event."""
        first: dict[EventId, dict[int, DeliveryRecord]] = {}
        for delivery in self.journal.deliveries:
            first.setdefault(delivery.id, {}).setdefault(delivery.node, delivery)
        return first

    @cached_property
    def missing(self) -> list[tuple[EventRecord, int]]:
        """The events that nodes are owed and never got."""
        return [
            (self.journal.events[id], node)
            for id, nodes in self.expected.items()
            for node in nodes
            if not self.has_got(id, node)
        ]

    def has_got(self, id: EventId, node: int) -> bool:
        """Whether a node was ever told of an event."""
        return node in self.first_deliveries.get(id, ())

    @cached_property
    def _beyond_promise(self) -> list[tuple[int, int]]:
        """The times in which events may get lost, since too much has failed at once.

        From shortly before, for what was under way, until a refresh cycle later, when everybody has
        renewed what was lost. A split is more than any number of failures.
        """
        if self.failures_max is None:
            return []
        failures = sorted(self.journal.failures)
        times = [(split.start_us, split.start_us + self.repair_us) for split in self.journal.splits]
        for number, (start, _) in enumerate(failures):
            failed: dict[int, None] = {}
            for at, node in failures[number:]:
                if at > start + self.repair_us:
                    break
                failed[node] = None
                if len(failed) > self.failures_max:
                    times.append((start, at + self.refresh_us))
                    break
        return [(start - self.under_way_us, end) for start, end in times]

    def is_promised(self, event: EventRecord) -> bool:
        """Whether the protocol promises that an event is not lost."""
        at = event.called_us
        return not any(start <= at < end for start, end in self._beyond_promise)

    @cached_property
    def subscriptions_of(self) -> dict[int, list[SubscriptionRecord]]:
        """The subscriptions of each node that has any."""
        by_node: dict[int, list[SubscriptionRecord]] = {}
        for record in self.journal.subscriptions.values():
            by_node.setdefault(record.node, []).append(record)
        return by_node

    @cached_property
    def arrivals(self) -> dict[Listener, list[DeliveryRecord]]:
        """What came to each subscription from each publisher, every event when it first came.

        What is promised no order is left out.
        """
        arrivals: dict[Listener, list[DeliveryRecord]] = {}
        for delivery, numbers in self._news():
            event = self.journal.events.get(delivery.id)
            if event is not None and event.predicate in self.unordered:
                continue
            for number in numbers:
                listener = delivery.id.publisher, delivery.node, number
                arrivals.setdefault(listener, []).append(delivery)
        return arrivals

    def _news(self) -> Iterator[tuple[DeliveryRecord, tuple[int, ...]]]:
        """All deliveries in their order, each with the subscriptions that it was new to."""
        told: dict[tuple[EventId, int], dict[int, None]] = {}
        for delivery in self.journal.deliveries:
            first = self.first_deliveries[delivery.id][delivery.node]
            if first is delivery:
                yield delivery, delivery.subscriptions
                continue
            pair = delivery.id, delivery.node
            known = told.setdefault(pair, dict.fromkeys(first.subscriptions))
            yield delivery, tuple(n for n in delivery.subscriptions if n not in known)
            known |= dict.fromkeys(delivery.subscriptions)
