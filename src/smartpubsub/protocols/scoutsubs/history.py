"""Events that stay where they were admitted and recorded, for those who subscribe later.

The rendezvous of an attribute and its backups have all its events in their hands once; they keep
them on, each in the order of the times that publishers have signed, until there is no room or they
are too old. Nobody is told of that: whoever wants to know asks (`recalling.py`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.scoutsubs.messages import NOBODY, Recall, Recalled, Span
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.scoutsubs.opened import EventKey
from smartpubsub.seam import Peer

SPAN_US = 60 * MINUTE
"""Of how long a time events are counted together."""
SKEW_US_MAX = 5 * MINUTE
"""How far clocks may differ. What is dated later is not kept: it would be the newest for long."""
DIGEST_BYTES = 7
MEMORY_BYTES = 1 << 10
"""About what an event takes in memory beside what it says."""


class Place(NamedTuple):
    """Where an event stands among others: by its time, and those of one time by their ids."""

    created_us: int
    id: EventId


def place_of(event: Publication) -> Place:
    """Where an event stands."""
    return Place(event.created_us, event.id)


def place_before(since_us: int, after: EventId | None = None) -> Place:
    """The place after which everything is of a time or later, or comes after an event."""
    return Place(since_us, after or EventId(NOBODY, 0, 0))


class History:
    """The events that one node keeps on."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._kept: dict[EventKey, Publication] = {}
        """As they came."""
        self._places: dict[str, list[Place]] = {}
        """By attribute, in order."""
        self._spans: dict[str, dict[int, Span]] = {}
        """By attribute, and by when the span begins."""
        self._whole_us: dict[str, int] = {}
        """By attribute: from when on everything is here, as far as it is kept."""
        self.bytes_held = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def longest(self) -> int:
        """How many events are kept of the attribute of which there are most."""
        return max(map(len, self._places.values()), default=0)

    # --- keeping ---

    def keep(self, event: Publication, attribute: str) -> None:
        """An event was admitted here, or recorded: it stays, unless its time cannot be right."""
        office = self._office
        key = (event.id, attribute)
        if not office.settings.history_us_max or key in self._kept:
            return
        if not 0 < event.created_us <= office.now + SKEW_US_MAX:
            office.refusals["history"] += 1
            return
        if attribute not in self._places:
            self._whole_us[attribute] = event.created_us
            office.inheriting.on_first(attribute)
        self._kept[key] = event
        insort(self._places.setdefault(attribute, []), place_of(event))
        self._count(event, attribute, 1)
        self.bytes_held += _size(event)
        self._make_room(attribute)

    def inherit(self, event: Publication, attribute: str) -> None:
        """Keep an event that others have kept before this node had to."""
        office, settings = self._office, self._office.settings
        key, places = (event.id, attribute), self._places.get(attribute, [])
        is_old = event.created_us < office.now - settings.history_us_max
        is_oldest = len(places) >= settings.history_count_max and place_of(event) < places[0]
        if key in self._kept or is_old or is_oldest:
            return
        if self.bytes_held + _size(event) > settings.history_bytes_max or office.storing.is_full:
            office.refusals["history"] += 1
            return
        self.keep(event, attribute)
        if key in self._kept:
            office.storing.keep_done(event, attribute)
            if not places:  # What else there is has not come yet.
                self.doubt(attribute)

    def _count(self, event: Publication, attribute: str, by: int) -> None:
        spans = self._spans.setdefault(attribute, {})
        since_us = event.created_us - event.created_us % SPAN_US
        _, count, digest = spans.get(since_us, Span(since_us, 0, 0))
        spans[since_us] = Span(since_us, count + by, digest ^ _digest(event.id))
        if not count + by:
            del spans[since_us]

    def _make_room(self, attribute: str) -> None:
        settings = self._office.settings
        places = self._places[attribute]
        if len(places) > settings.history_count_max:
            self._drop((places[0].id, attribute))
        while self.bytes_held > settings.history_bytes_max:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: EventKey) -> None:
        event = self._kept.pop(key)
        self.bytes_held -= _size(event)
        places = self._places[key[1]]
        del places[bisect_left(places, place_of(event))]
        self._count(event, key[1], -1)
        if not places:
            del self._places[key[1]], self._spans[key[1]], self._whole_us[key[1]]
            self._office.inheriting.forget(key[1])
        self._office.storing.drop_done(key)

    def on_done(self, key: EventKey) -> None:
        """Everybody has an event: nobody has to bring it to an end any more."""
        if key in self._kept:
            self._office.storing.mark_done(key)
        else:
            self._office.storing.drop_record(key)

    def restore(self, past: Iterable[tuple[Publication, str]]) -> None:
        """Keep again what was kept before a restart."""
        for event, attribute in sorted(past, key=lambda entry: place_of(entry[0])):
            self.keep(event, attribute)
            if (event.id, attribute) not in self._kept:
                self._office.storing.drop_record((event.id, attribute))
        for attribute in self._places:  # Something may have been published meanwhile.
            self._office.inheriting.forget(attribute)
            self.doubt(attribute)

    def tick(self) -> None:
        """Once in a while: forget what is too old."""
        oldest_us = self._office.now - self._office.settings.history_us_max
        for attribute, places in list(self._places.items()):
            for place in places[: bisect_left(places, place_before(oldest_us))]:
                self._drop((place.id, attribute))

    # --- how much there is ---

    @property
    def attributes(self) -> list[str]:
        """The attributes of which something is kept."""
        return [*self._places]

    def spans(self, attribute: str) -> tuple[Span, ...]:
        """What is kept of an attribute, hour by hour."""
        return tuple(sorted(self._spans.get(attribute, {}).values()))

    def oldest_us(self, attribute: str) -> int:
        """Of when the oldest event is that is kept of an attribute; 0 if there is none."""
        places = self._places.get(attribute)
        return places[0].created_us if places else 0

    def whole_us(self, attribute: str) -> int:
        """From when on everything is here that is kept of an attribute; 0 if that is not known."""
        return self._whole_us.get(attribute, 0)

    def trust(self, attribute: str, whole_us: int) -> None:
        """Everything is here from a time on, if not from before that; 0 for nothing new."""
        if attribute in self._places and whole_us:
            known_us = self._whole_us[attribute]
            self._whole_us[attribute] = min(known_us or whole_us, whole_us)

    def doubt(self, attribute: str) -> None:
        """This node may have missed something of an attribute."""
        self._whole_us[attribute] = 0

    # --- telling ---

    def on_recall(self, peer: Peer, part: Recall) -> None:
        """Somebody asks for what is kept."""
        self._office.say(peer, self.answer(part))

    def answer(self, part: Recall) -> Recalled:
        """What is kept of what is asked for, as much as goes in one message."""
        attribute = part.attribute
        places = self._places.get(attribute, [])
        oldest_us, whole_us = self.oldest_us(attribute), self.whole_us(attribute)
        if part.about is not None:
            found = self._about(attribute, part.about)
            return Recalled(attribute, part.number, found, False, oldest_us, whole_us)
        first = bisect_right(places, place_before(part.since_us, part.after))
        matching = self._matching(attribute, islice(places, first, None), part.predicate)
        if part.newest:
            backwards = (places[n] for n in range(len(places) - 1, first - 1, -1))
            newest = islice(self._matching(attribute, backwards, part.predicate), part.newest)
            matching = reversed([*newest])
        events, has_more = self._page(matching)
        return Recalled(attribute, part.number, events, has_more, oldest_us, whole_us)

    def _about(self, attribute: str, about: EventId) -> tuple[Publication, ...]:
        for _, id in self._places.get(attribute, ()):
            is_numbered = (id.number, id.incarnation) == (about.number, about.incarnation)
            if is_numbered and id.publisher.endswith(about.publisher):
                return (self._kept[id, attribute],)
        return ()

    def _matching(
        self, attribute: str, places: Iterable[Place], wanted: Predicate
    ) -> Iterator[Publication]:
        for _, id in places:
            event = self._kept[id, attribute]
            if wanted.matches(event.predicate):
                yield event

    def _page(self, matching: Iterable[Publication]) -> tuple[tuple[Publication, ...], bool]:
        settings = self._office.settings
        events: list[Publication] = []
        size = 0
        for event in matching:
            size += event.wire_bytes
            is_full = size > settings.page_bytes_max or len(events) == settings.page_count_max
            if events and is_full:
                return tuple(events), True
            events.append(event)
        return tuple(events), False


def _digest(id: EventId) -> int:
    written = id.publisher + id.incarnation.to_bytes(8, "big") + id.number.to_bytes(8, "big")
    return int.from_bytes(blake2b(written, digest_size=DIGEST_BYTES).digest(), "big")


def _size(event: Publication) -> int:
    return event.wire_bytes + MEMORY_BYTES
