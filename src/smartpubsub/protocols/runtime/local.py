"""The subscriptions of a node's own application, matched on delivery."""

from __future__ import annotations

from smartpubsub.matching import Index
from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.pubsub import Delivery, Subscribed, Subscription, Unsubscribed
from smartpubsub.seam import Deliver, Effect


class LocalSubscriptions:
    """Subscriptions that are in force at once."""

    def __init__(self) -> None:
        self._index = Index()
        self._subscriptions: dict[int, Subscription] = {}

    def add(self, subscription: Subscription) -> list[Effect]:
        """Add a subscription."""
        self._subscriptions[subscription.number] = subscription
        self._index.add(subscription.number, subscription.predicate)
        return [Deliver(Subscribed(subscription))]

    def remove(self, number: int) -> list[Effect]:
        """Remove a subscription."""
        self._index.remove(number)
        return [Deliver(Unsubscribed(self._subscriptions.pop(number)))]

    def deliver(self, event: Publication, hops: int) -> list[Effect]:
        """Deliver an event to the application if one of its subscriptions matches."""
        wanted = self._index.match(event.predicate)
        return [Deliver(Delivery(event, tuple(sorted(wanted)), hops))] if wanted else []
