"""Watches a run, simulated or real: notes what happens, and knows what is still waited for.

All that it is told comes in the order of time, which is the run's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.news import GroupOpened
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import (
    Delivery,
    Published,
    Refused,
    Subscribed,
    Unsubscribed,
)
from smartpubsub.protocols.pulsarcast.results import TopicStored
from smartpubsub.sim.experiments.calls import Call
from smartpubsub.sim.experiments.topics import Topics
from smartpubsub.sim.judging.journal import EventRecord, Journal, SubscriptionRecord
from smartpubsub.sim.judging.oracle import Oracle
from smartpubsub.sim.traces.trace import Row, Trace
from smartpubsub.workloads.actions import CreateTopic


class Observer:
    """Keeps the journal of a run."""

    def __init__(self, trace: Trace, region_of: Callable[[int], int]) -> None:
        self.trace = trace
        self._region_of = region_of
        self.journal = Journal()
        self.oracle = Oracle()
        self.copies: dict[tuple[int, EventId], int] = {}
        """How many copies of an event have come down to a node."""
        self.topics = Topics()
        self.ordered: dict[Predicate, bool] = {}
        """The topics that were made, and whether each keeps the order of its events."""
        self.publishers: dict[Predicate, int] = {}
        """Who alone may publish in a topic, where that is so."""
        self._owed: dict[EventId, dict[int, None]] = {}
        self._written: dict[EventId, str] = {}
        self._open_calls: dict[tuple[int, str, object], None] = {}

    # --- what is waited for ---

    @property
    def has_open_calls(self) -> bool:
        """Whether something that was asked for has not been acknowledged."""
        return bool(self._open_calls)

    def owes(self, is_up: Callable[[int], bool]) -> bool:
        """Whether somebody who is up has not got something that it is owed."""
        return any(is_up(node) for nodes in self._owed.values() for node in nodes)

    # --- what applications do ---

    def called(self, now: int, node: int, call: Call, wanted_us: int | None = None) -> None:
        """An application has asked its node for something, perhaps later than it wanted to."""
        what, key, predicate, size, topic = call
        row = Row(now, what, node, size=size, text=str(predicate))
        if isinstance(key, EventId):
            self._written[key] = str(key)
            self.trace.add_row(row._replace(event=str(key)))
            self._publish(now, node, key, call)
        elif isinstance(key, Predicate):
            self.trace.add_row(row)
        elif isinstance(key, bytes):
            assert topic is not None
            self.trace.add_row(row._replace(kind=str(Predicate.of({topic.name: True}))))
            self._create(node, predicate, topic)
        else:
            self.trace.add_row(row._replace(subscription=key))
            if what == "subscribe":
                record = SubscriptionRecord(node, key, predicate, now)
                self.journal.subscriptions[node, key] = record
                self.oracle.add(record)
            else:
                self.journal.unsubscribe(node, key, now, wanted_us)
                self._open_calls.pop((node, "subscribe", key), None)
        self._open_calls[node, what, key] = None

    def _create(self, node: int, predicate: Predicate, topic: CreateTopic) -> None:
        self.topics.created(topic.name, predicate)
        self.ordered[predicate] = topic.ordered
        if topic.ordered:
            self.publishers[predicate] = node

    def _publish(self, now: int, node: int, id: EventId, call: Call) -> None:
        through = self.publishers.get(call.predicate)
        self.journal.events[id] = EventRecord(id, node, call.predicate, now, through=through)
        wanting = self.oracle.interested(call.predicate)
        owed = {record.node: None for record in wanting if record.is_in_force(now)}
        if owed:
            self._owed[id] = owed

    # --- what applications are told ---

    def told(self, now: int, node: int, incarnation: int, item: object) -> None:
        """A node has told its application something."""
        match item:
            case Delivery(event):
                self.journal.delivered(node, incarnation, item, now)
                self._settle(event.id, node)
            case Subscribed(subscription):
                self._open_calls.pop((node, "subscribe", subscription.number), None)
                self.journal.subscribed(node, subscription.number, now)
            case Unsubscribed(subscription):
                self._open_calls.pop((node, "unsubscribe", subscription.number), None)
                self.journal.unsubscribed(node, subscription.number, now)
            case GroupOpened(group):
                self._open_calls.pop((node, "group", group.predicate), None)
            case Published(id):
                self._open_calls.pop((node, "publish", id), None)
                self.journal.events[id].acknowledged_us = now
            case TopicStored(topic):
                self._open_calls.pop((node, "create", topic), None)
            case Refused(id, reason):
                self._open_calls.pop((node, "publish", id), None)
                self._owed.pop(id, None)
                self.journal.events[id].refused = reason

    def _settle(self, id: EventId, node: int) -> None:
        owed = self._owed.get(id)
        if owed is not None:
            owed.pop(node, None)
            if not owed:
                del self._owed[id]

    # --- what happens to nodes ---

    def came(self, now: int, node: int, sender: int, ids: Iterable[EventId]) -> None:
        """Copies of events have come down to a node from another, resends left out."""
        is_far = self._region_of(node) != self._region_of(sender)
        for id in ids:
            event = self.journal.events.get(id)
            if event is not None:
                event.first_copies += event.node == sender
                event.crossings += is_far
            count = self.copies.get((node, id), 0)
            self.copies[node, id] = count + 1
            if count:
                self.journal.wire_duplicates += 1
            # Floodsub has hundreds of copies of an event, and writing an id out takes a while.
            written = self._written.get(id) or str(id)
            self.trace.add_copy(now, node, written)

    def failed(self, now: int, node: int, kind: str) -> None:
        """Something has gone wrong with a node, or right again."""
        if kind == "crash":
            self.journal.crashed(node, now)
            lost = [call for call in self._open_calls if call[0] == node]
            for call in lost:
                del self._open_calls[call]  # Whoever called is gone as well.
        elif kind in ("pause", "clog"):
            self.journal.failures.append((now, node))
        elif kind == "restart":
            self.journal.restarted(node, now)
