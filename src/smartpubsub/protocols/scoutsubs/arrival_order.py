"""The events of each publisher in the order of arrival, to evict the oldest."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from smartpubsub.protocols.scoutsubs.duplicates import EventKey
from smartpubsub.seam import Peer


class ArrivalOrder:
    """Finds the oldest event of a publisher among all that a component keeps.

    Most nodes always have room, so the order is built when it is first needed.
    """

    def __init__(self, kept: Callable[[], Iterable[EventKey]]) -> None:
        """`kept` returns the events in the order of arrival."""
        self._kept = kept
        self._of_publisher: dict[Peer, OrderedDict[EventKey, None]] | None = None

    def add(self, key: EventKey) -> None:
        """Add an event that has arrived."""
        if self._of_publisher is not None:
            self._of_publisher.setdefault(key[0].publisher, OrderedDict())[key] = None

    def drop(self, key: EventKey) -> None:
        """Remove an event that is no longer kept."""
        if self._of_publisher is not None:
            keys = self._of_publisher[key[0].publisher]
            del keys[key]
            if not keys:
                del self._of_publisher[key[0].publisher]

    def oldest_of(self, publisher: Peer) -> EventKey:
        """The first event of a publisher that has some."""
        if self._of_publisher is None:
            self._of_publisher = {}
            for key in self._kept():
                self.add(key)
        return next(iter(self._of_publisher[publisher]))

    def check(self) -> None:
        """Assert the invariant: it has the events that are kept."""
        if self._of_publisher is not None:
            keys = [key for some in self._of_publisher.values() for key in some]
            assert sorted(keys) == sorted(self._kept())
