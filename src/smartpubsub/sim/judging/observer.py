"""Records the journal of a run, simulated or real, and what the run still waits for.

All methods are called in the order of the run's own time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.results import GroupOpened
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import (
    Delivery,
    Published,
    Refused,
    Subscribed,
    Unsubscribed,
)
from smartpubsub.protocols.pulsarcast.results import TopicStored
from smartpubsub.seam import Peer
from smartpubsub.sim.experiments.calls import Call
from smartpubsub.sim.experiments.topics import Topics
from smartpubsub.sim.judging.journal import EventRecord, Journal, SubscriptionRecord
from smartpubsub.sim.judging.oracle import Oracle, is_owed, wants
from smartpubsub.sim.traces.trace import Row, Trace
from smartpubsub.workloads.actions import CreateTopic


class Observer:
    """The recorder of a run's journal."""

    def __init__(self, trace: Trace, region_of: Callable[[int], int]) -> None:
        self.trace = trace
        self._region_of = region_of
        self.journal = Journal()
        self.oracle = Oracle()
        self.copies: dict[tuple[int, EventId], int] = {}
        """How many copies of an event have come to a node on their way down."""
        self.topics = Topics()
        self.ordered: dict[Predicate, bool] = {}
        """The topics that were created, and whether each keeps the order of its events."""
        self.publishers: dict[Predicate, int] = {}
        """The only node that may publish in a topic, if there is only one."""
        self._owed: dict[EventId, dict[int, None]] = {}
        self._written: dict[EventId, str] = {}
        self._open_calls: dict[tuple[int, str, object], None] = {}

    # --- open calls and owed events ---

    @property
    def has_open_calls(self) -> bool:
        """Whether a call has not been acknowledged yet."""
        return bool(self._open_calls)

    @property
    def owed_count(self) -> int:
        """How many pairs of an event and a node that is owed it are still open."""
        return sum(map(len, self._owed.values()))

    def owes(self, is_up: Callable[[int], bool]) -> bool:
        """Whether a node that is up misses an event that it is owed."""
        return any(is_up(node) for nodes in self._owed.values() for node in nodes)

    def owes_before(self, until_us: int, node: int, predicate: Predicate) -> bool:
        """Whether a node misses an event for a subscription that was published before a time."""
        for id, nodes in self._owed.items():
            event = self.journal.events[id]
            if event.called_us >= until_us:
                break
            is_missing = node in nodes and is_owed(self.journal, event)
            if is_missing and wants(predicate, event.predicate):
                return True
        return False

    # --- calls of applications ---

    def called(self, now: int, node: int, call: Call, wanted_us: int | None = None) -> None:
        """Record a call, which may have been made later than planned since the node was paused."""
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

    # --- deliveries to applications ---

    def on_delivered(self, now: int, node: int, incarnation: int, item: object) -> None:
        """Record an item that a node has delivered to its application."""
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
                record = self.journal.events[id]
                record.acknowledged_us, record.holders = now, _holders(item)
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

    # --- copies and faults ---

    def came(self, now: int, node: int, sender: int, ids: Iterable[EventId]) -> None:
        """Record copies of events that came to a node on their way down; not retransmissions."""
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
            # Floodsub has hundreds of copies of each event, and formatting an id takes time.
            written = self._written.get(id) or str(id)
            self.trace.add_copy(now, node, sender, written)

    def failed(self, now: int, node: int, kind: str) -> None:
        """Record that a fault of a node has begun or ended."""
        if kind in ("crash", "leave"):
            self.journal.stopped(node, now, kind)
            lost = [call for call in self._open_calls if call[0] == node]
            for call in lost:
                del self._open_calls[call]  # The application that called has stopped as well.
        elif kind in ("pause", "clog"):
            self.journal.failures.append((now, node))
        elif kind == "restart":
            self.journal.restarted(node, now)


def _holders(published: Published) -> tuple[tuple[Peer, ...], ...]:
    """The nodes that hold an event, in one group for each attribute."""
    groups: dict[str, list[Peer]] = {}
    for held in published.held:
        groups.setdefault(held.attribute, []).append(held.peer)
    if published.kept_by:
        groups[""] = list(published.kept_by)
    return tuple(map(tuple, groups.values()))
