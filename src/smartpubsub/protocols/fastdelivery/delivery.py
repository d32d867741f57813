"""Delivers events to the application once, and in the publisher's order.

A member may be served by different helpers in different groups of an owner, so events reach it on
several paths. Each event names its predecessor if that may come on another path, and the member
waits for it. After `hold_us` the member asks the owner whether the predecessor is on its way. The
member stops waiting when the owner says no or does not answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.matching import Index
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.messages import Expect, GroupId
from smartpubsub.protocols.fastdelivery.ports import FastPorts
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Delivery, Subscription
from smartpubsub.protocols.seen import Seen
from smartpubsub.seam import Peer

HOLD_TIMER = "hold"
RECENT_US = 10 * MINUTE
RECENT_COUNT_MAX = 10_000
"""How many delivered events are remembered, and for how long, to tell owners what has come."""

Transmission = tuple[Peer, int]
"""The peer that has sent an event, and the number of its request."""


@dataclass(slots=True)
class _HeldEvent:
    """An event, and what to do for each transmission of it once it is delivered."""

    event: Publication
    group: GroupId
    hops: int
    then: dict[Transmission, Callable[[], None]]


@dataclass(slots=True)
class _Predecessor:
    """An event that has not come, and the events that wait for it."""

    since_us: int
    held: dict[EventId, _HeldEvent] = field(default_factory=dict)
    request: int | None = None
    """The question to the owner whether the event is on its way."""


class GroupDelivery:
    """The application's subscriptions, the events that it has, and those that are held back."""

    def __init__(self, ports: FastPorts) -> None:
        self._outbox = ports.outbox
        self._requests = ports.requests
        self._settings = ports.settings
        self._reject = ports.reject
        self._index = Index()
        self._subscriptions: dict[int, Subscription] = {}
        self._groups: dict[int, GroupId] = {}
        """The one group that a subscription is for; others are for all groups."""
        self._seen: Seen[EventId] = Seen(ports.settings.seen_us, ports.settings.seen_count_max)
        self._predecessors: dict[EventId, _Predecessor] = {}
        self._waits_for: dict[EventId, EventId] = {}
        """The predecessor that each held event waits for."""
        self._has_timer = False
        self._recent: deque[tuple[EventId, GroupId, int]] = deque()
        """The recent events, and when they came."""

    @property
    def held_count(self) -> int:
        """How many events wait for a predecessor."""
        return len(self._waits_for)

    # --- subscriptions ---

    def add(self, subscription: Subscription, group: GroupId | None = None) -> None:
        """Add a subscription of the application, for one group or for all."""
        if group is not None:
            self._groups[subscription.number] = group
        self._subscriptions[subscription.number] = subscription
        self._index.add(subscription.number, subscription.predicate)

    def remove(self, number: int) -> Subscription:
        """Remove a subscription; it gets no further events."""
        self._index.remove(number)
        self._groups.pop(number, None)
        return self._subscriptions.pop(number)

    def _wanting(self, event: Predicate, group: GroupId) -> list[int]:
        """The subscriptions that get an event of a group."""
        matching = self._index.match(event)
        return [number for number in matching if self._groups.get(number, group) == group]

    def wants(self, event: Predicate, group: GroupId) -> bool:
        """Whether a subscription gets an event of a group."""
        return bool(self._wanting(event, group))

    def deliver(self, event: Publication, group: GroupId, hops: int) -> None:
        """Hand an event of a group to the application, if it wants it and has not got it yet."""
        if self._seen.add(event.id, self._outbox.now):
            self._note(event.id, group)
            wanted = self._wanting(event.predicate, group)
            if wanted:
                self._outbox.deliver(Delivery(event, tuple(sorted(wanted)), hops))

    def _note(self, id: EventId, group: GroupId) -> None:
        recent, now = self._recent, self._outbox.now
        recent.append((id, group, now))
        while recent[0][2] < now - RECENT_US or len(recent) > RECENT_COUNT_MAX:
            recent.popleft()

    def recent(self, group: GroupId, since_us: int) -> list[EventId]:
        """The events of a group that were delivered, or not wanted, since a time."""
        return [id for id, of, at_us in self._recent if of == group and at_us >= since_us]

    def bring(self, event: Publication, group: GroupId) -> bool:
        """Deliver an event that its helper has not brought; return whether it was missing."""
        is_missing = event.id not in self._seen and event.id not in self._waits_for
        if is_missing:
            self._deliver_in_order(_HeldEvent(event, group, 1, {}))
        return is_missing

    # --- order ---

    def take(
        self,
        event: Publication,
        group: GroupId,
        hops: int,
        prior: int,
        transmission: Transmission,
        then: Callable[[], None],
    ) -> bool:
        """Deliver an event after its predecessor, then call back.

        Return False if the same transmission is held already.
        """
        id = event.id
        predecessor = id._replace(number=prior)
        is_next = not prior or predecessor in self._seen or id in self._seen
        waiting = self._held(id)
        if waiting is not None and transmission in waiting.then and not is_next:
            return False
        if is_next:
            self._deliver_in_order(_HeldEvent(event, group, hops, {transmission: then}))
        elif waiting is not None:
            waiting.then[transmission] = then
        elif self.held_count >= self._settings.held_count_max:
            self._reject("held events")
            self._deliver_in_order(_HeldEvent(event, group, hops, {transmission: then}))
        else:
            missing = self._predecessors.setdefault(predecessor, _Predecessor(self._outbox.now))
            missing.held[id] = _HeldEvent(event, group, hops, {transmission: then})
            self._waits_for[id] = predecessor
            self._set_timer()
        return True

    def _held(self, id: EventId) -> _HeldEvent | None:
        predecessor = self._waits_for.get(id)
        return None if predecessor is None else self._predecessors[predecessor].held[id]

    def _deliver_in_order(self, first: _HeldEvent) -> None:
        """Deliver an event and all events that wait for it, directly or not."""
        ready = [first]
        while ready:
            held = ready.pop(0)
            id = held.event.id
            then = list(held.then.values())
            predecessor = self._waits_for.pop(id, None)
            if predecessor is not None:  # Another copy came that need not wait.
                missing = self._predecessors[predecessor]
                then += missing.held.pop(id).then.values()
                if not missing.held:
                    self._release(predecessor)
            self.deliver(held.event, held.group, held.hops)
            for action in then:
                action()
            ready += self._release(id)

    def _release(self, predecessor: EventId) -> list[_HeldEvent]:
        """Stop waiting for an event; return those that waited, in the order of publishing."""
        missing = self._predecessors.pop(predecessor, None)
        if missing is None:
            return []
        if missing.request is not None:
            self._requests.cancel(missing.request)
        for id in missing.held:
            del self._waits_for[id]
        return [missing.held[id] for id in sorted(missing.held)]

    def _set_timer(self) -> None:
        if not self._has_timer:
            self._has_timer = True
            self._outbox.set_timer((HOLD_TIMER,), self._settings.hold_us)

    def on_hold_timer(self) -> None:
        """Ask owners for predecessors that have been missing for `hold_us`."""
        self._has_timer = False
        due_us = self._outbox.now - self._settings.hold_us
        for predecessor, missing in list(self._predecessors.items()):
            if missing.since_us <= due_us and missing.request is None:
                give_up = partial(self._give_up, predecessor)
                missing.request = self._requests.ask(
                    predecessor.publisher,
                    Expect(predecessor.incarnation, predecessor.number),
                    give_up,
                    give_up,
                    tries_max=self._settings.expect_tries_max,
                )
        if any(missing.request is None for missing in self._predecessors.values()):
            self._set_timer()

    def _give_up(self, predecessor: EventId, _: object = None) -> None:
        for held in self._release(predecessor):
            self._deliver_in_order(held)

    def check(self) -> None:
        """Assert that every held event waits for one predecessor that has not been delivered."""
        assert self.held_count <= self._settings.held_count_max
        assert sum(len(m.held) for m in self._predecessors.values()) == self.held_count
        for id, predecessor in self._waits_for.items():
            assert id in self._predecessors[predecessor].held
            assert id not in self._seen, "a delivered event is held"
