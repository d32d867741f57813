"""The facts about a run that checkers use, with derived ones that several of them share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from smartpubsub.kademlia.keys import key_of
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Inspection
from smartpubsub.seam import Peer
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.journal import DeliveryRecord, EventRecord, Journal, SubscriptionRecord
from smartpubsub.sim.judging.oracle import (
    REFRESH_US,
    UNDER_WAY_US,
    Oracle,
    expected_pairs,
    wants,
)

ALL_TREES_US = 5 * MINUTE
"""The time in which an event comes to a node through the trees of all its subscriptions; audits may
have to recover it."""

AUDITED_US = MINUTE
"""The time within which audits bring what adversaries withhold."""

Listener: TypeAlias = tuple[Peer, int, int]
"""A publisher, and the node and the number of a subscription that gets events of it."""


@dataclass(kw_only=True)
class Facts:
    """A run that is over, and what its protocol promises."""

    journal: Journal
    oracle: Oracle
    """An oracle that knows all the journal's subscriptions."""
    is_reliable: bool
    """Whether the protocol promises that nothing gets lost."""
    promises_order: bool
    """Whether a publisher's events must come in its order while nothing fails."""
    chained: bool = False
    """Whether they must come in its order under any faults."""
    unordered: frozenset[Predicate] = frozenset()
    """The topics whose subscriptions are promised no order, although others are."""
    was_interrupted: bool = False
    """Whether the run was ended early, so that a missing event may have been on its way."""
    network_reorders: bool = False
    """Whether a link may deliver messages in another order than they were sent in."""
    failures_max: int | None = None
    """How many nodes may fail within one repair time for nothing to be lost; None for any."""
    repair_us: int = MINUTE
    """How long after a fault events may still take another path."""
    refresh_us: int = REFRESH_US
    unsubscribe_us_max: int = MINUTE
    under_way_us: int = UNDER_WAY_US
    """How long an event is usually in flight, and may be lost with a node that fails meanwhile."""
    inspections: Sequence[tuple[int, int, Inspection]] = ()
    """Inspections: the time, the node and the result."""
    nodes_by_peer: Mapping[Peer, int] = field(default_factory=dict)
    state_check_count: int = 0
    """How many times the state of a node was checked during the run."""
    state_violations: Sequence[Violation] = ()
    """The violations that these checks found."""
    has_adversaries: bool = False
    """Whether some nodes lie, so that events may come late."""
    has_too_many_liars: bool = False
    """Whether more nodes lie than the protocol withstands."""
    liars: frozenset[Peer] = frozenset()
    """The nodes that lie, if losses to them are excused where they are too many near a name."""
    keeper_count: int = 0
    """How many nodes closest to an attribute keep its events, if one must be honest; else 0."""
    newcomers: frozenset[Peer] = frozenset()
    """The nodes that joined during the run."""
    convicted_count: int = 0
    convicted_honest_count: int = 0
    """How many nodes were convicted, and how many of them are honest."""

    @property
    def expected(self) -> dict[EventId, dict[int, None]]:
        """Which nodes are owed each event."""
        return self._owed[0]

    @property
    def not_owed(self) -> Counter[str]:
        """Pairs of an event and a node that wanted it and is not owed it, by reason."""
        return self._owed[1]

    @cached_property
    def _owed(self) -> tuple[dict[EventId, dict[int, None]], Counter[str]]:
        not_owed: Counter[str] = Counter()
        under_way_us = AUDITED_US if self.has_adversaries else UNDER_WAY_US
        owed = expected_pairs(
            self.journal, self.oracle, self.refresh_us, not_owed, under_way_us=under_way_us
        )
        return owed, not_owed

    @cached_property
    def first_deliveries(self) -> dict[EventId, dict[int, DeliveryRecord]]:
        """The first delivery of every event to every node."""
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
        """Whether an event was ever delivered to a node."""
        return node in self.first_deliveries.get(id, ())

    def left_out(self, event: EventRecord, node: int) -> list[int]:
        """The subscriptions that never got an event which their node got for other ones.

        Only subscriptions that were in force from the publish call to the end of the run count: a
        crash may have replaced one by another. A run ends soon after each node has got its events,
        so the last events of a run are not judged.
        """
        records = self.subscriptions_of.get(node, ())
        if len(records) < 2 or self.journal.ended_us < event.called_us + ALL_TREES_US:
            return []
        got = self._subscriptions_with(event.id, node)
        return [
            record.number
            for record in records
            if record.number not in got
            and record.is_in_force_since(event.called_us)
            and wants(record.predicate, event.predicate)
        ]

    def _subscriptions_with(self, id: EventId, node: int) -> tuple[int, ...]:
        """The subscriptions of a node that got an event."""
        later = self._later_deliveries.get((id, node), ())
        first = self.first_deliveries[id][node]
        return (*first.subscriptions, *(n for delivery in later for n in delivery.subscriptions))

    @cached_property
    def _later_deliveries(self) -> dict[tuple[EventId, int], list[DeliveryRecord]]:
        """All deliveries of an event to a node but the first."""
        later: dict[tuple[EventId, int], list[DeliveryRecord]] = {}
        for delivery in self.journal.deliveries:
            if self.first_deliveries[delivery.id][delivery.node] is not delivery:
                later.setdefault((delivery.id, delivery.node), []).append(delivery)
        return later

    @cached_property
    def _lossy_times(self) -> list[tuple[int, int, str]]:
        """Periods in which events may get lost because too many nodes failed at once, with reasons.

        A period ends a refresh cycle after the failures, when all subscribers have renewed their
        filters. A split counts as more than any number of failures.
        """
        if self.failures_max is None:
            return []
        failures = sorted(self.journal.failures)
        times = [
            (split.start_us, split.start_us + self.repair_us, "split")
            for split in self.journal.splits
        ]
        for number, (start, _) in enumerate(failures):
            failed: dict[int, None] = {}
            for at, node in failures[number:]:
                if at > start + self.repair_us:
                    break
                failed[node] = None
                if len(failed) > self.failures_max:
                    times.append((start, at + self.refresh_us, "too_many_failures"))
                    break
        return times

    def loss_excuse(self, event: EventRecord) -> str | None:
        """Why the protocol does not promise that an event is not lost; None if it does."""
        if self.was_interrupted:
            return "interrupted"
        if not self.is_reliable:
            return "not_reliable"
        if self.has_too_many_liars:
            return "too_many_liars"
        if any(map(self._has_lying_keepers, event.predicate.attributes)):
            return "lying_keepers"
        if self._is_held_by_none(event):
            return "holders_lost"
        for start, end, why in self._lossy_times:
            if self._may_be_struck(event, start) and event.called_us < end:
                return why
        return None

    def _has_lying_keepers(self, attribute: str) -> bool:
        """Whether too many liars are close to an attribute, though as many honest nodes may fail.

        Where keepers have failed, the next closest nodes keep its events. A node that has looked
        the keepers up before others joined relies on the earlier ones.
        """
        if not self.liars or not self.keeper_count:
            return False
        known = self._lying_keepers.get(attribute)
        if known is None:
            key = key_of(attribute.encode())
            closest = sorted(self.nodes_by_peer, key=lambda peer: key_of(peer) ^ key)
            failed = len({node for _, node in self.journal.failures})
            earlier = [peer for peer in closest if peer not in self.newcomers]
            known = any(
                sum(peer in self.liars for peer in near[: self.keeper_count + failed])
                > (self.failures_max or 0)
                for near in (closest, earlier)
            )
            self._lying_keepers[attribute] = known
        return known

    @cached_property
    def _lying_keepers(self) -> dict[str, bool]:
        return {}

    def _is_held_by_none(self, event: EventRecord) -> bool:
        """Whether all nodes that held an acknowledged event for one of its attributes are gone."""
        return any(all(map(self._is_gone, group)) for group in event.holders)

    def _is_gone(self, peer: Peer) -> bool:
        """Whether a peer crashed for good, or is an attacker, which is no node of the run."""
        node = self.nodes_by_peer.get(peer)
        return node is None or self.journal.is_gone(node)

    def _may_be_struck(self, event: EventRecord, failure_us: int) -> bool:
        """Whether a failure may lose an event.

        Not if the event was acknowledged before and its holders are known: one of them is still up,
        and can deliver it. Other events may have been in flight.
        """
        if event.holders and event.acknowledged_us is not None:
            return event.acknowledged_us > failure_us
        return event.called_us >= failure_us - self.under_way_us

    @cached_property
    def subscriptions_of(self) -> dict[int, list[SubscriptionRecord]]:
        """The subscriptions of each node that has any."""
        by_node: dict[int, list[SubscriptionRecord]] = {}
        for record in self.journal.subscriptions.values():
            by_node.setdefault(record.node, []).append(record)
        return by_node

    @cached_property
    def arrivals(self) -> dict[Listener, list[DeliveryRecord]]:
        """The first delivery of every event to each subscription, by publisher, in their order.

        Events of topics that promise no order are left out.
        """
        arrivals: dict[Listener, list[DeliveryRecord]] = {}
        for delivery, numbers in self._first_per_subscription():
            event = self.journal.events.get(delivery.id)
            if event is not None and event.predicate in self.unordered:
                continue
            for number in numbers:
                listener = delivery.id.publisher, delivery.node, number
                arrivals.setdefault(listener, []).append(delivery)
        return arrivals

    @cached_property
    def chains(self) -> dict[Predicate, dict[tuple[int, int], list[DeliveryRecord]]]:
        """By ordered topic, the first delivery of every event to each subscription, in their order.

        Subscriptions are known by node and number. Without ordered topics it is empty.
        """
        chains: dict[Predicate, dict[tuple[int, int], list[DeliveryRecord]]] = {}
        for delivery, numbers in self._first_per_subscription() if self.chained else ():
            event = self.journal.events.get(delivery.id)
            if event is not None and event.predicate not in self.unordered:
                chain = chains.setdefault(event.predicate, {})
                for number in numbers:
                    chain.setdefault((delivery.node, number), []).append(delivery)
        return chains

    def _first_per_subscription(self) -> Iterator[tuple[DeliveryRecord, tuple[int, ...]]]:
        """All deliveries in their order, each with the subscriptions that it was new to."""
        delivered: dict[tuple[EventId, int], dict[int, None]] = {}
        for delivery in self.journal.deliveries:
            first = self.first_deliveries[delivery.id][delivery.node]
            if first is delivery:
                yield delivery, delivery.subscriptions
                continue
            pair = delivery.id, delivery.node
            known = delivered.setdefault(pair, dict.fromkeys(first.subscriptions))
            yield delivery, tuple(n for n in delivery.subscriptions if n not in known)
            known |= dict.fromkeys(delivery.subscriptions)
