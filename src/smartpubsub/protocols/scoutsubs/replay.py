"""Replay: a subscription that begins with past events.

First the subscription comes into force, so that no event is lost between past and new ones. Then
the node asks the nodes closest to the attribute's key for their history: the rendezvous, its
replicas, and some more, as newcomers have no history. It merges the answers, verifies each event,
and delivers them in the order of time, together with the events that have arrived meanwhile.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from smartpubsub.kademlia.queries import Found
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication, Signing
from smartpubsub.protocols.pubsub import Delivery, SubscriptionState
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.runtime.lookups import Lookups
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.filters import Filters
from smartpubsub.protocols.scoutsubs.history import (
    History,
    HistoryPlace,
    place_before,
    place_of,
)
from smartpubsub.protocols.scoutsubs.local_delivery import LocalDelivery
from smartpubsub.protocols.scoutsubs.messages import Recall, Recalled
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import FIRST_EPOCH, shard_names
from smartpubsub.protocols.scoutsubs.subscriptions import Subscriptions
from smartpubsub.protocols.scoutsubs.timeouts import ResponseTimes
from smartpubsub.seam import Peer

TRIES_MAX = 5
"""How often the node asks a keeper that is up; the timeout doubles each time."""
LOOKUPS_MAX = 3
"""How often the node looks up other keepers in place of those that are down."""
_UNDATED_US = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Past:
    """The part of the history to replay; all of it by default."""

    since: EventId | None = None
    """Events after this one; the end of its publisher's id is enough."""
    since_us: int = 0
    last: int = 0
    """Only this many of the newest ones; 0 for all."""


class CaughtUp(NamedTuple):
    """The replay for a subscription has ended, with a reason if it failed."""

    number: int
    given: int
    """The number of replayed events."""
    oldest_us: int
    """The time of the oldest kept event, matching or not; 0 if there is none."""
    problem: str = ""
    is_whole: bool = True
    """Whether only events that are too old can be missing."""


@dataclass(slots=True)
class _Source:
    """How far a keeper has answered."""

    after: HistoryPlace
    question: int = 0
    """The number of the unanswered question; 0 if there is none."""
    tries: int = 0
    is_done: bool = False

    @property
    def is_due(self) -> bool:
        """Whether the keeper can be asked for more."""
        return not self.is_done and not self.question


class _HistoryKeeper(NamedTuple):
    """A node that may keep the history of a tree."""

    peer: Peer
    tree: str


@dataclass(slots=True, eq=False)
class _ReplayReader:
    """A subscription whose replay is under way."""

    number: int
    predicate: Predicate
    attribute: str
    past: Past
    after: HistoryPlace | None
    """The place after which the replay begins; None until the place of `past.since` is known."""
    has_begun: bool = False
    lookups: int = 0
    looking: int = 0
    """The number of lookups under way."""
    sources: dict[_HistoryKeeper, _Source] = field(default_factory=dict)
    silent: dict[_HistoryKeeper, None] = field(default_factory=dict)
    events: dict[EventId, Publication] = field(default_factory=dict)
    held_count: int = 0
    """The number of events that have arrived meanwhile."""
    size: int = 0
    """The bytes of the events that were replayed or have arrived."""
    oldest_us: dict[str, int] = field(default_factory=dict)
    """By tree: the time of the oldest kept event."""
    whole_us: dict[str, int] = field(default_factory=dict)
    """By tree: the time since which a keeper lacks nothing."""

    @property
    def first_us(self) -> int:
        """The time of the oldest kept event; 0 if there is none."""
        return min(self.oldest_us.values(), default=0)


@dataclass(eq=False)
class Replay:
    """The subscriptions of this node that begin with the past."""

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _own: Peer
    _lookups: Lookups
    _signing: Signing
    _detector: FailureDetector
    _times: ResponseTimes
    _filters: Filters
    _subscriptions: Subscriptions
    _history: History
    _delivery: LocalDelivery

    def __post_init__(self) -> None:
        self._readers: dict[int, _ReplayReader] = {}

    def __len__(self) -> int:
        return len(self._readers)

    # --- beginning and ending ---

    def recall(self, number: int, past: Past) -> None:
        """Begin a replay as soon as the subscription is in force."""
        wanted = self._subscriptions.place_of(number)
        if wanted is None or len(self._readers) >= self._settings.recall_count_max:
            self._outbox.reject("recalls")
            self._outbox.deliver(
                CaughtUp(
                    number, 0, 0, "the node replays history for too many subscriptions; try later"
                )
            )
            return
        predicate, attribute = wanted
        after = place_before(past.since_us) if past.since is None else None
        self._readers[number] = _ReplayReader(number, predicate, attribute, past, after)
        self._delivery.hold(number)
        if self._subscriptions.state_of(number) is SubscriptionState.IN_FORCE:
            self.on_in_force(number)

    def on_in_force(self, number: int) -> None:
        """Begin the replay of a subscription that is in force, and so gets all new events."""
        reader = self._readers.get(number)
        if reader is not None and not reader.has_begun:
            reader.has_begun = True
            self._look_up(reader)

    def forget(self, number: int) -> None:
        """End the replay of a subscription."""
        self._delivery.release(number)
        if self._readers.pop(number, None) is not None:
            self._outbox.cancel_timer(("replay", number))

    def on_held(self, number: int, event: Publication) -> None:
        """Count an event that has arrived for a subscription whose replay is under way."""
        reader = self._readers[number]
        reader.held_count += 1
        reader.size += event.wire_bytes
        self._end_if_too_much(reader)

    # --- keepers ---

    def _look_up(self, reader: _ReplayReader) -> None:
        reader.lookups += 1
        # Each shard of an attribute has its own history.
        was_split = self._filters.epochs.of(reader.attribute) > FIRST_EPOCH
        trees = shard_names(reader.attribute) if was_split else (reader.attribute,)
        reader.looking += len(trees)
        for tree in trees:
            self._lookups.find_closest(tree.encode(), partial(self._on_found, reader.number, tree))

    def _on_found(self, number: int, tree: str, found: Found) -> None:
        reader = self._readers.get(number)
        if reader is None:
            return
        after = reader.after or place_before(0)
        keepers = [_HistoryKeeper(contact.peer, tree) for contact in found.closest]
        there = [keeper for keeper in keepers if keeper not in reader.silent]
        for keeper in there[: 2 * (self._settings.backups + 1)]:
            reader.sources.setdefault(keeper, _Source(after))
        reader.looking -= 1
        if not reader.looking:
            self._go_on(reader)

    # --- questions ---

    def _go_on(self, reader: _ReplayReader) -> None:
        """Ask the keepers that have more, or conclude."""
        sources = reader.sources
        while due := [p for p, source in sources.items() if source.is_due]:
            for keeper in due:
                self._ask(reader, keeper)
            if reader.number not in self._readers:
                return  # The node's own history was too much.
        if all(source.is_done for source in sources.values()):
            self._conclude(reader)
        else:
            self._wait(reader)

    def _ask(self, reader: _ReplayReader, keeper: _HistoryKeeper) -> None:
        source = reader.sources[keeper]
        if not source.question:  # Otherwise retransmit it: an answer may be on its way.
            source.question = self._history.new_question()
        # A keeper that has begun with the newest events goes on from there.
        is_first = source.after == reader.after
        part = Recall(
            keeper.tree,
            source.question,
            reader.predicate,
            source.after.created_us,
            source.after.id if source.after.id.publisher else None,
            reader.past.last if is_first else 0,
            reader.past.since if reader.after is None else None,
        )
        if keeper.peer == self._own:
            self._take(reader, keeper, self._history.answer(part))
        else:
            self._outbox.queue(keeper.peer, part)

    def _wait(self, reader: _ReplayReader) -> None:
        tries = max(source.tries for source in reader.sources.values())
        self._outbox.set_timer(("replay", reader.number), self._times.timeout_us << tries)

    def on_timer(self, number: int) -> None:
        """Ask the keepers again that have not answered, and drop those that are down."""
        reader = self._readers.get(number)
        if reader is None:
            return
        is_one_gone = False
        for keeper, source in list(reader.sources.items()):
            if source.is_done or not source.question:
                continue
            source.tries += 1
            if self._detector.is_down(keeper.peer) or source.tries > TRIES_MAX:
                del reader.sources[keeper]
                reader.silent[keeper] = None
                is_one_gone = True
            else:
                self._detector.probe(keeper.peer)
                self._ask(reader, keeper)
        if not reader.sources and reader.lookups >= LOOKUPS_MAX:
            self._end(reader, "no node that may keep history answers; try later")
        elif is_one_gone and reader.lookups < LOOKUPS_MAX:
            self._look_up(reader)
        else:
            self._go_on(reader)

    # --- answers ---

    def has_asked(self, peer: Peer, part: Recalled) -> bool:
        """Whether a keeper was asked a question that it has not answered."""
        keeper = _HistoryKeeper(peer, part.attribute)
        sources = (reader.sources.get(keeper) for reader in self._readers.values())
        return any(source and source.question == part.number for source in sources)

    def on_recalled(self, peer: Peer, part: Recalled) -> None:
        """Take the answer of a keeper, and ask for more."""
        keeper = _HistoryKeeper(peer, part.attribute)
        for reader in self._readers.values():
            source = reader.sources.get(keeper)
            if source is not None and source.question == part.number:
                self._take(reader, keeper, part)
                if reader.number in self._readers:
                    self._go_on(reader)
                return

    def _take(self, reader: _ReplayReader, keeper: _HistoryKeeper, part: Recalled) -> None:
        source, tree = reader.sources[keeper], keeper.tree
        source.question = source.tries = 0
        if part.oldest_us:
            known_us = reader.oldest_us.get(tree, part.oldest_us)
            reader.oldest_us[tree] = min(known_us, part.oldest_us)
        if part.whole_us:
            known_us = reader.whole_us.get(tree, part.whole_us)
            reader.whole_us[tree] = min(known_us, part.whole_us)
        if reader.after is None:
            self._take_beginning(reader, source, part)
            return
        source.is_done = not (part.has_more and part.events)
        for event in part.events:
            if not self._is_valid(reader, source, event):
                self._outbox.reject("recalled events")
                source.is_done = True  # A lying keeper is not asked again.
                break
            source.after = place_of(event)
            if event.id not in reader.events:
                reader.events[event.id] = event
                reader.size += event.wire_bytes
        self._end_if_too_much(reader)

    def _take_beginning(self, reader: _ReplayReader, source: _Source, part: Recalled) -> None:
        """Take the place of the event that the replay begins after, if a keeper knows it."""
        since = reader.past.since
        assert since is not None
        for event in part.events:
            is_it = event.id[1:] == since[1:] and event.id.publisher.endswith(since.publisher)
            if is_it and self._signing.is_signed(event):
                reader.after = place_of(event)
                for each in reader.sources.values():
                    each.after, each.question, each.is_done = reader.after, 0, False
                return
        source.is_done = True

    def _is_valid(self, reader: _ReplayReader, source: _Source, event: Publication) -> bool:
        """Whether an event matches the question and is in order; else answers might never end."""
        is_asked_for = place_of(event) > source.after and bool(event.created_us)
        return (
            is_asked_for
            and reader.predicate.matches(event.predicate)
            and self._signing.is_signed(event)
        )

    # --- the end ---

    def _conclude(self, reader: _ReplayReader) -> None:
        if reader.after is None:
            since = reader.past.since
            self._end(
                reader,
                f"no node keeps an event {since} that matches {reader.predicate}: it was dropped,"
                " or does not match; name a time instead",
            )
            return
        silent = Counter(keeper.tree for keeper in reader.silent)
        if any(count > self._settings.backups for count in silent.values()):
            self._end(reader, "too many nodes that may keep history do not answer; try later")
            return
        events = sorted(reader.events.values(), key=place_of)
        if reader.past.last:
            events = events[-reader.past.last :]
        self._hand_over(reader, events)
        is_whole = self._is_whole(reader, events)
        caught_up = CaughtUp(reader.number, len(events), reader.first_us, is_whole=is_whole)
        self._outbox.deliver(caught_up)

    def _is_whole(self, reader: _ReplayReader, events: list[Publication]) -> bool:
        """Whether a keeper of each tree lacks nothing since the beginning of the replay."""
        assert reader.after is not None
        has_as_many = bool(events) and len(events) == reader.past.last
        first_us = events[0].created_us if has_as_many else reader.after.created_us
        return all(
            tree in reader.whole_us and reader.whole_us[tree] <= max(first_us, oldest_us)
            for tree, oldest_us in reader.oldest_us.items()
        )

    def _hand_over(self, reader: _ReplayReader, events: list[Publication]) -> None:
        """Deliver replayed and new events in one order, each once."""
        held = self._delivery.release(reader.number)
        self.forget(reader.number)
        deliveries = {event.id: Delivery(event, (reader.number,), 0) for event in events}
        for delivery in held:
            deliveries.setdefault(delivery.event.id, delivery)
        for delivery in sorted(deliveries.values(), key=_place_of_delivery):
            self._delivery.deliver_replayed(reader.number, delivery)

    def _end_if_too_much(self, reader: _ReplayReader) -> None:
        settings = self._settings
        count = len(reader.events) + reader.held_count
        if count > settings.recalled_count_max or reader.size > settings.recalled_bytes_max:
            self._end(reader, "the history is too long to be read at once; ask for less of it")

    def _end(self, reader: _ReplayReader, problem: str) -> None:
        """Give the replay up, and deliver the events that have arrived meanwhile."""
        self._hand_over(reader, [])
        self._outbox.deliver(CaughtUp(reader.number, 0, reader.first_us, problem))

    # --- invariants ---

    def check(self) -> None:
        """Assert the invariants: readers are within their limits and wait for an answer."""
        settings = self._settings
        for reader in self._readers.values():
            assert reader.size <= settings.recalled_bytes_max
            assert len(reader.events) + reader.held_count <= settings.recalled_count_max
            has_unanswered = any(source.question for source in reader.sources.values())
            assert not reader.has_begun or reader.looking or has_unanswered


def _place_of_delivery(delivery: Delivery) -> HistoryPlace:
    """The place of an event; events without a time come last."""
    created_us, id = place_of(delivery.event)
    return HistoryPlace(created_us or _UNDATED_US, id)
