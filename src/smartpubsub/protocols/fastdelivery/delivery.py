"""Delivers events to the application once, and in the publisher's order.

A member may be served by different helpers in different groups of an owner, so events reach it on
several paths. Each event names its predecessor if that may come on another path, and the member
waits for it. After `hold_us` the member asks the owner whether the predecessor is on its way. The
member stops waiting when the owner says no or does not answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.matching import Index
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.component import FastComponent
from smartpubsub.protocols.fastdelivery.messages import Expect, GroupId
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Delivery, Subscription
from smartpubsub.protocols.runtime.reorder import Reorder
from smartpubsub.protocols.seen import Seen
from smartpubsub.seam import Peer

HOLD_TIMER = "hold"
RECENT_US = 10 * MINUTE
RECENT_COUNT_MAX = 10_000
"""How long, and how many, delivered events are remembered, to tell owners which have arrived."""

_LONG_AGO_US = -(1 << 62)

TRANSMISSIONS_MAX = 16
"""Of one held event, which may come on several paths and again; further ones are not confirmed."""

Transmission = tuple[Peer, int]
"""The peer that has sent an event, and the number of its request."""


@dataclass(slots=True)
class _HeldEvent:
    """An event, and a callback for each transmission of it, called once it is delivered."""

    event: Publication
    group: GroupId
    hops: int
    then: dict[Transmission, Callable[[], None]]


@dataclass(slots=True)
class _AwaitedEvent:
    """An event that has not arrived, and that held events wait for."""

    since_us: int
    request: int | None = None
    """The question to the owner whether the event is on its way."""


@dataclass(eq=False)
class GroupDelivery(FastComponent):
    """The application's subscriptions, its delivered events, and the held events."""

    def __post_init__(self) -> None:
        self._index = Index()
        self._subscriptions: dict[int, Subscription] = {}
        self._groups: dict[int, GroupId] = {}
        """The one group that a subscription is for; subscriptions not here are for all groups."""
        settings = self._settings
        self._seen: Seen[EventId] = Seen(settings.seen_us, settings.seen_count_max)
        self._held: Reorder[EventId, _HeldEvent] = Reorder(self._release_held, self._on_unawaited)
        held_max = settings.held_count_max
        self._account = self._ledger.open("held events", held_max, held_max)
        self._awaited: dict[EventId, _AwaitedEvent] = {}
        self._has_timer = False
        self._recent: deque[tuple[EventId, GroupId, int]] = deque()
        """The recent events, and when they arrived."""
        self.recent_since_us = _LONG_AGO_US
        """All events that arrived since then are remembered."""

    @property
    def held_count(self) -> int:
        """How many events wait for a predecessor."""
        return len(self._held)

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
            self.recent_since_us = recent.popleft()[2] + 1

    def recent(self, group: GroupId, since_us: int) -> list[EventId]:
        """The events of a group that were delivered, or not wanted, since a time."""
        return [id for id, of, at_us in self._recent if of == group and at_us >= since_us]

    def bring(self, event: Publication, group: GroupId) -> bool:
        """Deliver an event that its helper has not brought; return whether it was missing."""
        is_missing = event.id not in self._seen and event.id not in self._held
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

        Return False if the same transmission is held already, or too many others are.
        """
        id = event.id
        predecessor = id._replace(number=prior)
        is_next = not prior or predecessor in self._seen or id in self._seen
        waiting = self._held.get(id)
        if waiting is not None and transmission in waiting.then and not is_next:
            return False
        if is_next:
            self._deliver_in_order(_HeldEvent(event, group, hops, {transmission: then}))
        elif waiting is not None:
            if len(waiting.then) >= TRANSMISSIONS_MAX:
                return False
            waiting.then[transmission] = then
        elif not self._make_room(id.publisher):
            self._account.refuse()
            self._outbox.reject("held events")
            self._deliver_in_order(_HeldEvent(event, group, hops, {transmission: then}))
        else:
            self._awaited.setdefault(predecessor, _AwaitedEvent(self._outbox.now))
            held = _HeldEvent(event, group, hops, {transmission: then})
            self._held.hold(id, held, predecessor)
            self._account.change(id.publisher, 1)
            self._set_timer()
        return True

    def _deliver_in_order(self, event: _HeldEvent) -> None:
        """Deliver an event and all events that wait for it, directly or not."""
        waiting = self._held.take(event.event.id)
        self._release(event)
        if waiting is not None:  # It is a copy, and its transmissions are confirmed too.
            self._release_held(waiting)
        self._held.pass_on(event.event.id)

    def _make_room(self, publisher: Peer) -> bool:
        """Return whether there is room to hold an event of a publisher.

        If need be, deliver an event early of the publisher with most held events, if it is another.
        """
        if self.held_count < self._settings.held_count_max:
            return True
        largest = self._account.largest()
        if largest is None or largest == publisher:
            return False
        self._account.evicted += 1
        self._give_up(next(id for id in self._awaited if id.publisher == largest))
        return True

    def _release_held(self, held: _HeldEvent) -> None:
        self._account.change(held.event.id.publisher, -1)
        self._release(held)

    def _release(self, held: _HeldEvent) -> None:
        self.deliver(held.event, held.group, held.hops)
        for action in held.then.values():
            action()

    def _on_unawaited(self, predecessor: EventId) -> None:
        request = self._awaited.pop(predecessor).request
        if request is not None:
            self._requests.cancel(request)

    def _set_timer(self) -> None:
        if not self._has_timer:
            self._has_timer = True
            self._outbox.set_timer((HOLD_TIMER,), self._settings.hold_us)

    def on_hold_timer(self) -> None:
        """Ask owners for predecessors that have been missing for `hold_us`."""
        self._has_timer = False
        due_us = self._outbox.now - self._settings.hold_us
        for predecessor, awaited in list(self._awaited.items()):
            if awaited.since_us <= due_us and awaited.request is None:
                give_up = partial(self._give_up, predecessor)
                awaited.request = self._requests.ask(
                    predecessor.publisher,
                    Expect(predecessor.incarnation, predecessor.number),
                    give_up,
                    give_up,
                    tries_max=self._settings.expect_tries_max,
                )
        if any(awaited.request is None for awaited in self._awaited.values()):
            self._set_timer()

    def _give_up(self, predecessor: EventId, _: object = None) -> None:
        self._held.pass_on(predecessor)

    def check(self) -> None:
        """Assert that every held event waits for one predecessor that has not been delivered."""
        assert self.held_count <= self._settings.held_count_max
        assert self._account.size == self.held_count
        self._held.check()
        assert all(map(self._held.is_awaited, self._awaited))
        assert not any(id in self._seen for id in self._held), "a delivered event is held"
