"""Delivery of events to the subscriptions of this node, to each of them once.

The new events of a subscription that replays the past (`replay.py`) wait until the replay ends. A
replayed event may still arrive by the tree, and is not delivered again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Delivery
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.seen import Seen


@dataclass(eq=False)
class LocalDelivery:
    """The events that wait for the end of a replay, and those that were delivered early.

    `_on_held` is called with the subscription and the event whenever one more event waits.
    """

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _on_held: Callable[[int, Publication], None]

    def __post_init__(self) -> None:
        settings = self._settings
        self._held: dict[int, list[Delivery]] = {}
        """By subscription: events that wait for the end of its replay."""
        self._given: Seen[tuple[int, EventId]] = Seen(settings.seen_us, settings.seen_count_max)
        """Delivered events that may still arrive by the tree."""

    def deliver(self, delivery: Delivery) -> None:
        """Deliver an event that has arrived by the tree."""
        if not self._held and not len(self._given):
            self._outbox.deliver(delivery)
            return
        ready = []
        for number in delivery.subscriptions:
            held = self._held.get(number)
            if held is not None:
                held.append(delivery._replace(subscriptions=(number,)))
                self._on_held(number, delivery.event)
            elif (number, delivery.event.id) not in self._given:
                ready.append(number)
        if ready:
            self._outbox.deliver(delivery._replace(subscriptions=tuple(ready)))

    def deliver_early(self, delivery: Delivery) -> bool:
        """Deliver an event that may still arrive by the tree; return whether it was missing."""
        missing = [
            number
            for number in delivery.subscriptions
            if (number, delivery.event.id) not in self._given
        ]
        if missing:
            self.deliver(delivery._replace(subscriptions=tuple(missing)))
        for number in missing:
            self._given.add((number, delivery.event.id), self._outbox.now)
        return bool(missing)

    # --- replays ---

    def hold(self, number: int) -> None:
        """Keep the new events of a subscription until `release`."""
        self._held[number] = []

    def release(self, number: int) -> list[Delivery]:
        """Return the events of a subscription that have waited; later ones do not wait."""
        return self._held.pop(number, [])

    def deliver_replayed(self, number: int, delivery: Delivery) -> None:
        """Deliver an event of a replay to its subscription."""
        self._given.add((number, delivery.event.id), self._outbox.now)
        self._outbox.deliver(delivery)

    def check(self) -> None:
        """Assert the invariant: each waiting delivery is for one subscription."""
        for number, held in self._held.items():
            assert all(delivery.subscriptions == (number,) for delivery in held)
