"""Finds the regions of members that do not declare one, by round trips.

The first member of a measured region is its landmark. A new member measures its round trips to the
landmarks. It belongs to the nearest region if that is near, and starts a region of its own if none
is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.fastdelivery.book import Book
from smartpubsub.protocols.fastdelivery.component import FastComponent
from smartpubsub.protocols.fastdelivery.messages import Answer, Measure, Measured, Ping
from smartpubsub.seam import Peer

PINGS_MAX = 8_000
"""The round trips that a node measures at once for all owners; one owner may have an eighth."""
_UNREACHED_US = 1 << 62


@dataclass(slots=True)
class _Measurement:
    """The round trips that a member has measured so far for an owner."""

    owner: Peer
    number: int
    count: int
    round_trips: dict[int, int] = field(default_factory=dict)
    ended: int = 0


@dataclass(eq=False)
class RegionFinder(FastComponent):
    """Asks new members of own groups to measure, and measures for other owners."""

    def __post_init__(self) -> None:
        self._account = self._ledger.open("measured round trips", PINGS_MAX)

    # --- for an owner ---

    def find(self, book: Book, peer: Peer, then: Callable[[str], None]) -> None:
        """Find the region of a member of a group."""
        known = book.members.get(peer)
        if known is not None:
            then(known.region)
        else:
            self._ask(book, peer, then, {})

    def _ask(
        self, book: Book, peer: Peer, then: Callable[[str], None], far: dict[str, int]
    ) -> None:
        landmarks = {name: c for name, c in book.landmarks().items() if name not in far}
        if not landmarks:
            self._begin_region(book, then, far)
            return
        self._requests.ask(
            peer,
            Measure(tuple(landmarks.values())),
            partial(self._on_measured, book, peer, then, far, list(landmarks)),
            # Events wait for the member, so it needs a place even if it never answers.
            partial(self._begin_region, book, then, far),
        )

    def _begin_region(self, book: Book, then: Callable[[str], None], far: dict[str, int]) -> None:
        """Place a member in a new region, or in the nearest one if there are enough regions."""
        regions = far or dict.fromkeys(book.landmarks(), _UNREACHED_US)
        has_enough = len(regions) >= self._settings.region_count_max
        then(min(regions, key=regions.__getitem__) if has_enough else book.new_region())

    def _on_measured(
        self,
        book: Book,
        peer: Peer,
        then: Callable[[str], None],
        far: dict[str, int],
        regions: list[str],
        answer: Answer,
    ) -> None:
        if not isinstance(answer, Measured) or len(answer.round_trips) != len(regions):
            self._begin_region(book, then, far)
            return
        for region, round_trip_us in zip(regions, answer.round_trips, strict=True):
            far[region] = round_trip_us or _UNREACHED_US
        near = min(far, key=far.__getitem__)
        if far[near] <= self._settings.near_us:
            then(near)
        else:
            self._ask(book, peer, then, far)  # Another member may have started a region meanwhile.

    # --- for a member ---

    def on_measure(self, contact: Contact, number: int, question: Measure) -> None:
        """Measure the round trips to landmarks for an owner."""
        if not self._account.fits(contact.peer, len(question.landmarks)):
            self._account.refuse()  # The owner asks again.
            return
        self._account.change(contact.peer, len(question.landmarks))
        measurement = _Measurement(contact.peer, number, len(question.landmarks))
        for place, landmark in enumerate(question.landmarks):
            self._requests.ask(
                landmark.peer,
                Ping(),
                partial(self._on_reached, measurement, place, self._outbox.now),
                partial(self._on_unreached, measurement),
                tries_max=1,
            )

    def _on_reached(self, measurement: _Measurement, place: int, began_us: int, _: Answer) -> None:
        measurement.round_trips[place] = max(1, self._outbox.now - began_us)
        self._on_unreached(measurement)

    def _on_unreached(self, measurement: _Measurement) -> None:
        measurement.ended += 1
        self._account.change(measurement.owner, -1)
        if measurement.ended == measurement.count:
            times = tuple(measurement.round_trips.get(n, 0) for n in range(measurement.count))
            self._requests.answer(measurement.owner, measurement.number, Measured(times))
