"""Which nodes are owed each event, found by a matching rule that the protocols do not share.

This module implements the rule a second time, so that it detects an error in the predicates or in
an index of the protocols.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Interval, Predicate
from smartpubsub.predicates.numbers import Number
from smartpubsub.protocols.publication import EventId
from smartpubsub.sim.judging.journal import EventRecord, Journal, Split, SubscriptionRecord

UNDER_WAY_US = 10 * SECOND
"""A subscriber that unsubscribes within this time after the publish call is not owed the event."""
REFRESH_US = 15 * MINUTE
"""How often subscribers renew, unless settings say otherwise."""

_REMEMBERED_MAX = 1_000_000

_Condition: TypeAlias = tuple[str, Interval | None]


def wants(filter: Predicate, event: Predicate) -> bool:
    """Whether an event meets every attribute of a filter."""
    return _are_met(filter.attributes.items(), event.attributes)


def _are_met(conditions: Iterable[_Condition], carried: Mapping[str, Interval | None]) -> bool:
    for name, wanted in conditions:
        if name not in carried:
            return False
        if wanted is None:
            continue
        got = carried[name]
        if got is None:
            return False
        if not (wanted.lo <= got.lo and got.hi <= wanted.hi):
            return False
    return True


@dataclass(slots=True, eq=False)
class _EqualFilters:
    """The subscriptions with one predicate, and the part of it that the index does not check."""

    rest: tuple[_Condition, ...]
    records: list[tuple[int, SubscriptionRecord]] = field(default_factory=list)
    """The subscriptions, each with its number in the order of addition."""


class Oracle:
    """All subscriptions of a run, each indexed by the rarest of its names."""

    def __init__(self) -> None:
        self._by_predicate: dict[Predicate, _EqualFilters] = {}
        self._by_topic: dict[str, list[_EqualFilters]] = {}
        self._by_range: dict[str, list[tuple[Number, Number, _EqualFilters]]] = {}
        self._uses: Counter[str] = Counter()
        self._added = 0
        self._remembered: dict[Predicate, list[SubscriptionRecord]] = {}
        self._remembered_count = 0

    def add(self, record: SubscriptionRecord) -> None:
        """Add a subscription, whether or not it is in force."""
        equal = self._by_predicate.get(record.predicate)
        if equal is None:
            equal = self._by_predicate[record.predicate] = self._filed(record.predicate)
        equal.records.append((self._added, record))
        self._added += 1
        self._forget()

    def interested(self, predicate: Predicate) -> list[SubscriptionRecord]:
        """The subscriptions that want an event, in the order in which they were added."""
        found = self._remembered.get(predicate)
        if found is None:
            entries = [entry for equal in self._wanting(predicate) for entry in equal.records]
            found = [record for _, record in sorted(entries)]
            self._remember(predicate, found)
        return found.copy()

    def _filed(self, predicate: Predicate) -> _EqualFilters:
        conditions = predicate.attributes
        self._uses.update(conditions.keys())
        # Of two equally rare names, a range excludes more events than a topic.
        filed_under = min(conditions, key=lambda name: (self._uses[name], conditions[name] is None))
        equal = _EqualFilters(
            tuple(condition for condition in conditions.items() if condition[0] != filed_under)
        )
        interval = conditions[filed_under]
        if interval is None:
            self._by_topic.setdefault(filed_under, []).append(equal)
        else:
            self._by_range.setdefault(filed_under, []).append((*interval, equal))
        return equal

    def _wanting(self, event: Predicate) -> Iterator[_EqualFilters]:
        carried = event.attributes
        for name, got in carried.items():
            near = self._by_topic.get(name, [])
            if got is not None:
                at_least, at_most = got
                near = near + [
                    equal
                    for lo, hi, equal in self._by_range.get(name, ())
                    if lo <= at_least and at_most <= hi
                ]
            for equal in near:
                if _are_met(equal.rest, carried):
                    yield equal

    def _remember(self, predicate: Predicate, found: list[SubscriptionRecord]) -> None:
        # Workloads repeat their events many times or never: bound the memory in both cases.
        self._remembered_count += 1 + len(found)
        if self._remembered_count > _REMEMBERED_MAX:
            self._forget()
        else:
            self._remembered[predicate] = found

    def _forget(self) -> None:
        if self._remembered_count:
            self._remembered.clear()
            self._remembered_count = 0


def expected_pairs(
    journal: Journal,
    oracle: Oracle,
    refresh_us: int = REFRESH_US,
    not_owed: Counter[str] | None = None,
    under_way_us: int = UNDER_WAY_US,
) -> dict[EventId, dict[int, None]]:
    """Which nodes are owed each event; an event that no node is owed is left out.

    The oracle knows all the journal's subscriptions. `not_owed` counts the pairs of an
    event and a node with a matching subscription that are left out, by reason; the subscription is
    in force, or was never acknowledged. Events that were refused are no such pairs.
    """
    debts = _Debts(journal, refresh_us, under_way_us)
    expected = {}
    for event in journal.events.values():
        if event.refused is not None:
            continue
        nodes: dict[int, None] = {}
        left_out: dict[int, str] = {}
        for record, reason in debts.of(event, oracle):
            if reason is None:
                nodes[record.node] = None
            else:
                left_out[record.node] = reason
        if nodes:
            expected[event.id] = nodes
        if not_owed is not None:
            not_owed.update(reason for node, reason in left_out.items() if node not in nodes)
    return expected


class _Debts:
    """Decides for each event which of the subscriptions that want it are owed it."""

    def __init__(self, journal: Journal, refresh_us: int, under_way_us: int) -> None:
        self._journal = journal
        self._refresh_us = refresh_us
        self._under_way_us = under_way_us
        self._gone = {node: None for node in journal.downs if journal.is_gone(node)}
        self._got = {(delivery.id, delivery.node): None for delivery in journal.deliveries}

    def of(
        self, event: EventRecord, oracle: Oracle
    ) -> Iterator[tuple[SubscriptionRecord, str | None]]:
        """The subscriptions that want an event, with the reason if one is not owed it.

        They are those in force, and those that the network never acknowledged.
        """
        at = event.called_us
        is_event_owed = is_owed(self._journal, event)
        splits = [s for s in self._journal.splits if _is_felt(s, at, self._refresh_us)]
        for record in oracle.interested(event.predicate):
            if not record.is_in_force(at):
                if is_event_owed and _is_unanswered(record, at):
                    yield record, "never_acknowledged"
                continue
            if is_event_owed:
                yield record, self._reason(event, record, splits)
            else:
                yield record, "publisher_crashed"

    def _reason(
        self, event: EventRecord, record: SubscriptionRecord, splits: list[Split]
    ) -> str | None:
        node = record.node
        if node in self._gone:
            return "subscriber_gone"
        is_given_up = _is_given_up(record, event.called_us, self._under_way_us)
        if is_given_up and (event.id, node) not in self._got:
            return "unsubscribed"
        if any(separates(split, event.node, node) for split in splits):
            return "split"
        return None


def _is_unanswered(record: SubscriptionRecord, at: int) -> bool:
    """Whether a node wanted a subscription at a time that was not acknowledged in the whole run."""
    was_wanted = record.called_us <= at and not _is_given_up(record, at)
    return was_wanted and not record.in_force


def _is_given_up(record: SubscriptionRecord, at: int, under_way_us: int = UNDER_WAY_US) -> bool:
    ended = record.unsubscribe_wanted_us
    return ended is not None and ended <= at + under_way_us


def is_owed(journal: Journal, event: EventRecord) -> bool:
    """Whether the network must deliver an event: it acknowledged it, or the publisher stayed up."""
    if event.refused is not None:
        return False
    if event.acknowledged_us is not None:
        return True
    if event.through is not None and journal.is_gone(event.through):
        return False  # The only node that may publish it is gone.
    return journal.was_up(event.node, event.called_us)


def separates(split: Split, one: int, other: int) -> bool:
    """Whether two nodes were on different sides of a split."""
    return (one in split.group) != (other in split.group)


def _is_felt(split: Split, at: int, refresh_us: int) -> bool:
    """Whether an event that is published at a time may stay on its publisher's side of a split."""
    return split.start_us <= at < split.end_us + refresh_us
