"""The subscriptions of the node's own application, and what is delivered to them, once."""

from __future__ import annotations

from smartpubsub.matching import Index
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.office import Office
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Delivery, Subscription
from smartpubsub.protocols.seen import Seen


class Local:
    """Who in this node wants what, by whichever group it comes."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._index = Index()
        self.subscriptions: dict[int, Subscription] = {}
        settings = office.settings
        self.seen: Seen[EventId] = Seen(settings.seen_us, settings.seen_count_max)

    def add(self, subscription: Subscription) -> None:
        """Take a subscription."""
        self.subscriptions[subscription.number] = subscription
        self._index.add(subscription.number, subscription.predicate)

    def remove(self, number: int) -> Subscription:
        """End a subscription; nothing is delivered to it any more."""
        self._index.remove(number)
        return self.subscriptions.pop(number)

    def deliver(self, event: Publication, hops: int) -> None:
        """Hand an event to the application if it wants it and has not got it yet."""
        if self.seen.add(event.id, self._office.now):
            wanted = self._index.match(event.predicate)
            if wanted:
                self._office.deliver(Delivery(event, tuple(sorted(wanted)), hops))

    def wants(self, event: Predicate) -> bool:
        """Whether a subscription wants an event."""
        return self._index.match_any(event)
