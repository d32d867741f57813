"""The events of each publisher in the order of arrival, for those that make room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from smartpubsub.protocols.scoutsubs.duplicates import EventKey
from smartpubsub.seam import Peer


class ArrivalOrder:
    """Finds the oldest event of a publisher among all that a component keeps.

    Most nodes always have room, so the order is written down when it is first asked for.
    """

    def __init__(self, kept: Callable[[], Iterable[EventKey]]) -> None:
        """`kept` gives the events in the order of arrival."""
        self._kept = kept
        self._of_publisher: dict[Peer, OrderedDict[EventKey, None]] | None = None

    def add(self, key: EventKey) -> None:
        """An event has come."""
        if self._of_publisher is not None:
            self._of_publisher.setdefault(key[0].publisher, OrderedDict())[key] = None

    def drop(self, key: EventKey) -> None:
        """An event is no longer kept."""
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
