"""History: completed events that nodes keep for later subscribers.

The rendezvous of an attribute and its replicas have had all its events. They keep them in the order
of the times that publishers have signed, until there is no room or they are too old. A subscriber
asks for them (`replay.py`).

Anti-entropy keeps these histories equal. A node that keeps history of an attribute checks
periodically which nodes are closest to its key. It sends a digest to the new ones, and from time to
time to all: for each hour, the number of events and a hash of them. They answer with theirs, and
each node fetches the hours that it lacks, page by page. While no node comes or goes, no events are
copied.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.ledger import Account, Ledger
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication, Signing
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.scoutsubs.arrival_order import ArrivalOrder
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.duplicates import EventKey, digest_of_id
from smartpubsub.protocols.scoutsubs.messages import NO_PEER, Inherit, Recall, Recalled, Span
from smartpubsub.protocols.scoutsubs.persistence import Persistence
from smartpubsub.protocols.scoutsubs.proximity import Proximity
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.timeouts import ResponseTimes
from smartpubsub.seam import Peer

SPAN_US = 60 * MINUTE
"""The length of a span: the events of one span share a digest."""
SKEW_US_MAX = 5 * MINUTE
"""By how much clocks may differ. A node keeps no event with a later time, as it would never age."""
MEMORY_BYTES = 1 << 10
"""About how much memory an event takes beside its content."""
ATTRIBUTES_PER_TICK = 500
FETCHES_MAX = 4
"""Of how many attributes a node fetches history at a time; the others wait."""
FETCH_TRIES_MAX = 4
DOWN_MAX = 8
"""How many of the closest peers may be down before the overlay has noticed."""
ON_THEIR_WAY = 50
"""Of the current hour, a node fetches events only if a peer has more by over one in this many."""


class HistoryPlace(NamedTuple):
    """The place of an event in the history: by its time, then by its id."""

    created_us: int
    id: EventId


def place_of(event: Publication) -> HistoryPlace:
    """The place of an event."""
    return HistoryPlace(event.created_us, event.id)


def place_before(since_us: int, after: EventId | None = None) -> HistoryPlace:
    """The place before all events of a time, or at an event of that time."""
    return HistoryPlace(since_us, after or EventId(NO_PEER, 0, 0))


class History:
    """The completed events that this node keeps.

    If there is no room, it evicts the oldest event of the publisher that has most; or the oldest of
    all, if all publishers have the same.

    `on_begun` is called with an attribute before its first event, `on_ended` after its last one.
    """

    def __init__(
        self,
        outbox: ScoutOutbox,
        settings: ScoutSettings,
        persistence: Persistence,
        ledger: Ledger,
        on_begun: Callable[[str], None],
        on_ended: Callable[[str], None],
    ) -> None:
        self._outbox = outbox
        self._settings = settings
        self._persistence = persistence
        self._on_begun = on_begun
        self._on_ended = on_ended
        self._kept: OrderedDict[EventKey, Publication] = OrderedDict()
        """In the order of arrival."""
        bytes_max = settings.history_bytes_max
        self._account = ledger.open("history of publishers", bytes_max, bytes_max)
        self._order = ArrivalOrder(lambda: self._kept)
        self._shares: dict[str, Account] = {}
        """By attribute: how many events each publisher has."""
        self._evicted_us: dict[str, int] = {}
        """By attribute: the time after the latest evicted event."""
        self._places: dict[str, list[HistoryPlace]] = {}
        """By attribute, in order."""
        self._spans: dict[str, dict[int, tuple[int, int]]] = {}
        """By attribute, and by the beginning of the span: how many events, and their digest."""
        self._whole_us: dict[str, int] = {}
        """By attribute: the time since which nothing is missing; 0 if that is not known."""
        self._last_question = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def bytes_held(self) -> int:
        """The size of all events, with the memory that they take."""
        return self._account.size

    @property
    def longest(self) -> int:
        """The number of events of the attribute that has most of them."""
        return max(map(len, self._places.values()), default=0)

    def new_question(self) -> int:
        """A number for a question about the history of other nodes."""
        self._last_question += 1
        return self._last_question

    # --- keeping ---

    def keep(self, event: Publication, attribute: str) -> None:
        """Keep an event that was admitted or recorded here, unless its time cannot be right."""
        key = (event.id, attribute)
        if not self._settings.history_us_max or key in self._kept:
            return
        if not 0 < event.created_us <= self._outbox.now + SKEW_US_MAX:
            self._outbox.reject("history")
            return
        self._add(event, attribute)

    def _add(self, event: Publication, attribute: str) -> None:
        key = (event.id, attribute)
        if attribute not in self._places:
            self._whole_us[attribute] = event.created_us
            self._on_begun(attribute)
            count_max = self._settings.history_count_max
            self._shares[attribute] = Account(attribute, count_max, count_max)
            self._places[attribute] = []
        publisher = event.id.publisher
        self._kept[key] = event
        self._order.add(key)
        places, place = self._places[attribute], place_of(event)
        if not places or places[-1] < place:  # As is usual.
            places.append(place)
        else:
            insort(places, place)
        self._count(event, attribute, 1)
        share = self._shares[attribute]
        share.change(publisher, 1)
        self._account.change(publisher, memory_bytes(event))
        if share.size > share.size_max or self._account.size > self._account.size_max:
            self._make_room(attribute)

    def merge(self, event: Publication, attribute: str) -> None:
        """Keep an event that another node has kept."""
        settings = self._settings
        key, places = (event.id, attribute), self._places.get(attribute, [])
        is_old = event.created_us < self._outbox.now - settings.history_us_max
        is_oldest = len(places) >= settings.history_count_max and place_of(event) < places[0]
        if key in self._kept or is_old or is_oldest:
            return
        is_too_much = self.bytes_held + memory_bytes(event) > settings.history_bytes_max
        if is_too_much or self._persistence.is_full:
            self._outbox.reject("history")
            self._note_missing(event, attribute)
            return
        self.keep(event, attribute)
        if key in self._kept:
            self._persistence.keep_done(event, attribute)
            if not places:  # The rest has not arrived yet.
                self.doubt(attribute)

    def _count(self, event: Publication, attribute: str, by: int) -> None:
        spans = self._spans.get(attribute)
        if spans is None:
            spans = self._spans[attribute] = {}
        since_us = event.created_us - event.created_us % SPAN_US
        count, digest = spans.get(since_us, (0, 0))
        if count + by:
            spans[since_us] = (count + by, digest ^ digest_of_id(event.id))
        else:
            del spans[since_us]

    def _make_room(self, attribute: str) -> None:
        share = self._shares[attribute]
        while share.excess:
            places = self._places[attribute]
            user = _user_with_most(share)
            first = next(place for place in places if user in (None, place.id.publisher))
            self._evict((first.id, attribute))
        while self._account.excess:
            user = _user_with_most(self._account)
            self._evict(next(iter(self._kept)) if user is None else self._order.oldest_of(user))

    def _evict(self, key: EventKey) -> None:
        self._note_missing(self._kept[key], key[1])
        self._account.evicted += 1
        self._drop(key)

    def _note_missing(self, event: Publication, attribute: str) -> None:
        """Note that an event is missing from now on, so the history before it is not whole."""
        after_us = event.created_us + 1
        if attribute in self._places:
            self._evicted_us[attribute] = max(self._evicted_us.get(attribute, 0), after_us)

    def _drop(self, key: EventKey) -> None:
        event = self._kept.pop(key)
        publisher = event.id.publisher
        self._account.change(publisher, -memory_bytes(event))
        self._shares[key[1]].change(publisher, -1)
        self._order.drop(key)
        places = self._places[key[1]]
        is_oldest = places[0].id == event.id  # As is usual.
        del places[0 if is_oldest else bisect_left(places, place_of(event))]
        self._count(event, key[1], -1)
        if not places:
            del self._places[key[1]], self._spans[key[1]], self._whole_us[key[1]]
            del self._shares[key[1]]
            self._evicted_us.pop(key[1], None)
            self._on_ended(key[1])
        self._persistence.drop_done(key)

    def on_done(self, key: EventKey) -> None:
        """Mark an event as completed: no node has to retransmit it after a restart."""
        if key in self._kept:
            self._persistence.mark_done(key)
        else:
            self._persistence.drop_record(key)

    def restore(self, past: Iterable[tuple[Publication, str]]) -> None:
        """Keep the stored history again after a restart, also if the clock was set back."""
        for event, attribute in sorted(past, key=lambda entry: place_of(entry[0])):
            if self._settings.history_us_max and (event.id, attribute) not in self._kept:
                self._add(event, attribute)
            if (event.id, attribute) not in self._kept:
                self._persistence.drop_record((event.id, attribute))
        for attribute in self._places:  # Events may have been published meanwhile.
            self._on_ended(attribute)
            self.doubt(attribute)

    def tick(self) -> None:
        """Remove events that are too old."""
        oldest_us = self._outbox.now - self._settings.history_us_max
        for attribute, places in list(self._places.items()):
            for place in places[: bisect_left(places, place_before(oldest_us))]:
                self._drop((place.id, attribute))

    # --- extent ---

    @property
    def attributes(self) -> list[str]:
        """The attributes with history."""
        return [*self._places]

    def spans(self, attribute: str) -> tuple[Span, ...]:
        """The digests of an attribute's history, hour by hour."""
        spans = self._spans.get(attribute, {})
        return tuple(Span(since_us, *spans[since_us]) for since_us in sorted(spans))

    def oldest_us(self, attribute: str) -> int:
        """The time of an attribute's oldest event; 0 if there is none."""
        places = self._places.get(attribute)
        return places[0].created_us if places else 0

    def whole_us(self, attribute: str) -> int:
        """The time since which nothing is missing of an attribute; 0 if that is not known."""
        whole_us = self._whole_us.get(attribute, 0)
        return max(whole_us, self._evicted_us.get(attribute, 0)) if whole_us else 0

    def trust(self, attribute: str, whole_us: int) -> None:
        """Note that nothing is missing since a time, or an earlier known one; 0 for no change."""
        if attribute in self._places and whole_us:
            known_us = self._whole_us[attribute]
            self._whole_us[attribute] = min(known_us or whole_us, whole_us)

    def doubt(self, attribute: str) -> None:
        """Note that this node may have missed events of an attribute."""
        self._whole_us[attribute] = 0

    # --- answers ---

    def on_recall(self, peer: Peer, part: Recall) -> None:
        """Answer a node that asks for history."""
        self._outbox.queue(peer, self.answer(part))

    def answer(self, part: Recall) -> Recalled:
        """The answer to a question, as much of it as fits into one message."""
        attribute = part.attribute
        places = self._places.get(attribute, [])
        oldest_us, whole_us = self.oldest_us(attribute), self.whole_us(attribute)
        if part.about is not None:
            found = self._by_number(attribute, part.about)
            return Recalled(attribute, part.number, found, False, oldest_us, whole_us)
        first = bisect_right(places, place_before(part.since_us, part.after))
        matching = self._matching(attribute, islice(places, first, None), part.predicate)
        if part.newest:
            backwards = (places[n] for n in range(len(places) - 1, first - 1, -1))
            newest = islice(self._matching(attribute, backwards, part.predicate), part.newest)
            matching = reversed([*newest])
        events, has_more = first_page(matching, self._settings)
        return Recalled(attribute, part.number, events, has_more, oldest_us, whole_us)

    def _by_number(self, attribute: str, about: EventId) -> tuple[Publication, ...]:
        for _, id in self._places.get(attribute, ()):
            is_numbered = (id.number, id.incarnation) == (about.number, about.incarnation)
            if is_numbered and id.publisher.endswith(about.publisher):
                return (self._kept[id, attribute],)
        return ()

    def _matching(
        self, attribute: str, places: Iterable[HistoryPlace], wanted: Predicate
    ) -> Iterator[Publication]:
        for _, id in places:
            event = self._kept[id, attribute]
            if wanted.matches(event.predicate):
                yield event

    # --- invariants ---

    def check(self) -> None:
        """Assert the invariants: places, spans and sizes agree with the events."""
        assert sum(map(len, self._places.values())) == len(self._kept)
        assert self.bytes_held == sum(map(memory_bytes, self._kept.values()))
        self._order.check()
        self._account.check()
        for attribute, places in self._places.items():
            assert sum(count for count, _ in self._spans[attribute].values()) == len(places)
        assert self._places.keys() == self._spans.keys() == self._whole_us.keys()


@dataclass(slots=True, eq=False)
class _Fetch:
    """The hours of an attribute that another node has more of."""

    peer: Peer
    whole_us: int
    spans: list[int]
    """The beginnings of these hours; the last one is being fetched."""
    after: HistoryPlace
    question: int = 0
    tries: int = 0


@dataclass(eq=False)
class HistoryAntiEntropy:
    """Keeps the history of attributes at the nodes closest to their keys."""

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _signing: Signing
    _detector: FailureDetector
    _proximity: Proximity
    _times: ResponseTimes
    _history: History

    def __post_init__(self) -> None:
        self._announced: dict[str, dict[Peer, None]] = {}
        """By attribute: the closest peers that have this node's digests."""
        self._agreed: dict[str, dict[Peer, None]] = {}
        """By attribute: the peers with the same history."""
        self._announced_us: dict[str, int] = {}
        self._fetches: dict[str, _Fetch] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._fetches)

    # --- digests to others ---

    def on_begun(self, attribute: str) -> None:
        """Note the closest nodes: all of them begin to keep history of an attribute."""
        self._announced[attribute] = dict.fromkeys(self._closest(attribute))
        self._announced_us[attribute] = self._outbox.now

    def on_ended(self, attribute: str) -> None:
        """Forget an attribute without history, or with history that must be compared anew."""
        for about in (self._announced, self._announced_us, self._agreed):
            about.pop(attribute, None)

    def tick(self) -> None:
        """Compare histories with the nodes that are closest to the attributes now."""
        attributes = self._history.attributes
        if not attributes:
            return
        first = self._next % len(attributes)
        ahead = [*attributes[first:], *attributes[:first]][:ATTRIBUTES_PER_TICK]
        self._next = first + len(ahead)
        for attribute in ahead:
            self._compare(attribute)

    def _compare(self, attribute: str) -> None:
        closest = self._closest(attribute)
        announced = self._announced.get(attribute, {})
        if self._outbox.now - self._announced_us.get(attribute, 0) >= self._settings.renew_us:
            for peer in announced:
                if not self._detector.was_heard_within(peer, self._times.timeout_us):
                    self._detector.probe(peer)
            announced = {}
            self._agreed.pop(attribute, None)
            self._announced_us[attribute] = self._outbox.now
        for peer in closest:
            if peer not in announced:
                self._send_digests(peer, attribute, is_answer=False)
        self._announced[attribute] = dict.fromkeys(closest)
        if len(closest) > self._settings.backups:  # New events do not come to this node.
            self._agreed.pop(attribute, None)
            self._history.doubt(attribute)
        else:
            self._agree(attribute, closest)

    def _send_digests(self, peer: Peer, attribute: str, *, is_answer: bool) -> None:
        history = self._history
        spans, whole_us = history.spans(attribute), history.whole_us(attribute)
        self._outbox.queue(peer, Inherit(attribute, whole_us, spans, is_answer))

    def _closest(self, attribute: str) -> list[Peer]:
        """The other nodes that should have the same history."""
        count = self._settings.backups
        if not self._is_close(attribute, count + 1):
            count += 1
        return [contact.peer for contact in self._closest_up(attribute, count)]

    def _closest_up(self, attribute: str, count: int) -> list[Contact]:
        """The closest peers that are not down."""
        known = self._proximity.closest(attribute.encode(), count + DOWN_MAX)
        return [contact for contact in known if not self._detector.is_down(contact.peer)][:count]

    def _is_close(self, attribute: str, count: int) -> bool:
        """Whether this node is among a number of closest nodes, as far as it knows."""
        name, own = attribute.encode(), self._proximity.own.key
        known = self._closest_up(attribute, count)
        return len(known) < count or own ^ key_of(name) < known[-1].key ^ key_of(name)

    # --- digests of others ---

    def on_inherit(self, peer: Peer, part: Inherit) -> None:
        """Compare the digests of a node with the own ones, and fetch missing hours."""
        attribute = part.attribute
        if not self._settings.history_us_max:
            return
        if not part.is_answer:
            self._send_digests(peer, attribute, is_answer=True)
        if not self._is_close(attribute, 2 * (self._settings.backups + 1)):
            return
        own = {span.since_us: span for span in self._history.spans(attribute)}
        wanted = [span.since_us for span in part.spans if self._is_wanted(span, own)]
        if wanted:
            self._want(peer, part, sorted(wanted, reverse=True))
            return
        if own and len(part.spans) == len(own):
            self._agreed.setdefault(attribute, {})[peer] = None
        self._history.trust(attribute, part.whole_us)
        self._agree(attribute, self._closest(attribute))

    def _want(self, peer: Peer, part: Inherit, spans: list[int]) -> None:
        if part.attribute in self._fetches:
            return  # The next exchange of digests will show what is missing.
        if len(self._fetches) >= self._settings.tree_count_max:
            self._outbox.reject("inherited history")
            return
        after = place_before(spans[-1])
        self._fetches[part.attribute] = _Fetch(peer, part.whole_us, spans, after)
        self._begin()

    def _is_wanted(self, span: Span, own: Mapping[int, Span]) -> bool:
        """Whether another node may have events of an hour that this one lacks."""
        mine = own.get(span.since_us, Span(span.since_us, 0, 0))
        end_us = span.since_us + SPAN_US
        if span == mine or end_us < self._outbox.now - self._settings.history_us_max:
            return False
        # In the current hour some events are still on their way.
        return end_us < self._outbox.now or span.amount > mine.amount + mine.amount // ON_THEIR_WAY

    def _agree(self, attribute: str, closest: list[Peer]) -> None:
        """Trust the history if all closest nodes have the same: one of them had each event."""
        agreed = self._agreed.get(attribute, {})
        is_cut_off = not closest and self._proximity.knows_others
        if not is_cut_off and all(peer in agreed for peer in closest):
            self._history.trust(attribute, self._history.oldest_us(attribute))

    # --- fetching ---

    def _begin(self) -> None:
        active = sum(bool(fetch.question) for fetch in self._fetches.values())
        for attribute, fetch in self._fetches.items():
            if not fetch.question and active < FETCHES_MAX:
                active += 1
                self._ask(attribute, fetch)

    def _ask(self, attribute: str, fetch: _Fetch) -> None:
        fetch.question = self._history.new_question()
        after = fetch.after
        everything = Predicate.of({attribute: True})
        id = after.id if after.id.publisher else None
        part = Recall(attribute, fetch.question, everything, after.created_us, id, 0, None)
        self._outbox.queue(fetch.peer, part)
        self._outbox.set_timer(("history", attribute), self._times.timeout_us << fetch.tries)

    def on_timer(self, attribute: str) -> None:
        """Ask a node again that has not answered, or give up."""
        fetch = self._fetches.get(attribute)
        if fetch is None:
            return
        fetch.tries += 1
        if fetch.tries > FETCH_TRIES_MAX:
            self._end(attribute)
        else:
            self._ask(attribute, fetch)

    def has_asked(self, peer: Peer, part: Recalled) -> bool:
        """Whether a node was asked a question that it has not answered."""
        fetch = self._fetches.get(part.attribute)
        return fetch is not None and (fetch.peer, fetch.question) == (peer, part.number)

    def on_recalled(self, peer: Peer, part: Recalled) -> None:
        """Keep the events of an answer, and ask for the next ones."""
        fetch = self._fetches.get(part.attribute)
        if fetch is None or (fetch.peer, fetch.question) != (peer, part.number):
            return
        fetch.tries = 0
        if not self._take(part.attribute, fetch, part.events):
            self._outbox.reject("recalled events")
            self._end(part.attribute)
            return
        end_us = fetch.spans[-1] + SPAN_US
        if not (part.has_more and part.events) or fetch.after.created_us >= end_us:
            del fetch.spans[-1]
            if not fetch.spans:
                self._history.trust(part.attribute, fetch.whole_us)
                self._end(part.attribute)
                return
            fetch.after = max(fetch.after, place_before(fetch.spans[-1]))
        self._ask(part.attribute, fetch)

    def _take(self, attribute: str, fetch: _Fetch, events: Iterable[Publication]) -> bool:
        """Keep fetched events; return whether they are those that the question asks for."""
        for event in events:
            is_asked_for = place_of(event) > fetch.after and attribute in event.predicate.attributes
            if not is_asked_for or not self._signing.is_signed(event):
                return False
            fetch.after = place_of(event)
            self._history.merge(event, attribute)
        return True

    def _end(self, attribute: str) -> None:
        del self._fetches[attribute]
        self._outbox.cancel_timer(("history", attribute))
        self._begin()

    # --- invariants ---

    def check(self) -> None:
        """Assert the invariants: few fetches are active, and each has hours left."""
        assert sum(bool(fetch.question) for fetch in self._fetches.values()) <= FETCHES_MAX
        assert all(fetch.spans for fetch in self._fetches.values())


def _user_with_most(account: Account) -> Peer | None:
    """The user that has most; None if all have the same."""
    largest = account.largest()
    assert largest is not None
    is_unequal = account.size_of(largest) * account.user_count > account.size
    return largest if is_unequal else None


def memory_bytes(event: Publication) -> int:
    """About how much memory an event takes."""
    return event.wire_bytes + MEMORY_BYTES


def first_page(
    events: Iterable[Publication], settings: ScoutSettings
) -> tuple[tuple[Publication, ...], bool]:
    """The first events, as many as fit into one message, and whether there are more."""
    page: list[Publication] = []
    size = 0
    for event in events:
        size += event.wire_bytes
        is_full = size > settings.page_bytes_max or len(page) == settings.page_count_max
        if page and is_full:
            return tuple(page), True
        page.append(event)
    return tuple(page), False
