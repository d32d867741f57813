"""Recent events, which children may request after an offer (`offers.py`)."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox

RECENT_US = 60_000_000
RECENT_COUNT_MAX = 10_000
RECENT_BYTES_MAX = 8 << 20


class RecentEvent(NamedTuple):
    """A recent event, and the number of links that it has passed."""

    event: Publication
    hops: int
    since_us: int


class RecentEvents:
    """The events of the last minute that have several attributes, up to a size."""

    def __init__(self, outbox: ScoutOutbox) -> None:
        self._outbox = outbox
        self._events: OrderedDict[EventId, RecentEvent] = OrderedDict()
        self._bytes = 0

    def get(self, id: EventId) -> RecentEvent | None:
        """Return an event, if it is recent."""
        return self._events.get(id)

    def keep(self, event: Publication, hops: int) -> None:
        """Keep an event for a while, as it may be offered in other trees."""
        if len(event.predicate) == 1 or event.id in self._events:
            return
        self._events[event.id] = RecentEvent(event, hops, self._outbox.now)
        self._bytes += event.wire_bytes
        while len(self._events) > RECENT_COUNT_MAX or self._bytes > RECENT_BYTES_MAX:
            self._forget_oldest()

    def tick(self) -> None:
        """Forget events that no child will request any more."""
        oldest_us = self._outbox.now - RECENT_US
        while self._events and next(iter(self._events.values())).since_us < oldest_us:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, oldest = self._events.popitem(last=False)
        self._bytes -= oldest.event.wire_bytes

    def check(self) -> None:
        """Assert the invariant: the size is that of the events."""
        assert self._bytes == sum(recent.event.wire_bytes for recent in self._events.values())
