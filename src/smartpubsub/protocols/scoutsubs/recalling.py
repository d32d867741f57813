"""A subscription that begins with what was published before it.

First it comes into force, so that nothing can fall between the past and what is to come. Then those
closest to its attribute are asked for what they keep: the rendezvous, its backups, and some more,
for whoever came lately has nothing of before. What they have is put together, each event checked
and taken once, and handed over in the order of time; what has come meanwhile goes along with it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from smartpubsub.kademlia.queries import Found
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Delivery, SubscriptionState
from smartpubsub.protocols.scoutsubs.branches import WHOLE_STAGE, names_of
from smartpubsub.protocols.scoutsubs.history import Place, place_before, place_of
from smartpubsub.protocols.scoutsubs.messages import Recall, Recalled
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.seen import Seen
from smartpubsub.seam import Deliver, Peer

TRIES_MAX = 5
"""How often somebody is asked who is there and does not answer; each time is waited for longer."""
LOOKUPS_MAX = 3
"""How often others are looked for in the place of those who are not there."""
_UNDATED_US = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Past:
    """Which part of the past; all of it if nothing is said."""

    since: EventId | None = None
    """What comes after this event; the end of its publisher's id will do."""
    since_us: int = 0
    last: int = 0
    """The newest so many; 0 for any number."""


class CaughtUp(NamedTuple):
    """A subscription has been given the past, and goes on with what comes; or why it was not."""

    number: int
    given: int
    """How many events of the past there were."""
    oldest_us: int
    """Of when the oldest event is that anybody keeps, matching or not; 0 if nobody keeps any."""
    problem: str = ""
    is_whole: bool = True
    """Whether it is known that nothing is missing but what nobody is to keep any more."""


@dataclass(slots=True)
class _Source:
    """Somebody who is asked, and how far it has told."""

    after: Place
    question: int = 0
    """The number of what it was asked last and has not answered; 0 if there is nothing."""
    tries: int = 0
    is_done: bool = False

    @property
    def is_due(self) -> bool:
        """Whether it is to be asked."""
        return not self.is_done and not self.question


class _Keeper(NamedTuple):
    """Somebody who may keep the past of a tree."""

    peer: Peer
    tree: str


@dataclass(slots=True, eq=False)
class _Reader:
    """One subscription that is being given the past."""

    number: int
    predicate: Predicate
    attribute: str
    past: Past
    after: Place | None
    """Where it begins; None until it is known where the event stands that it comes after."""
    has_begun: bool = False
    lookups: int = 0
    looking: int = 0
    """How many lookups are under way."""
    sources: dict[_Keeper, _Source] = field(default_factory=dict)
    silent: dict[_Keeper, None] = field(default_factory=dict)
    events: dict[EventId, Publication] = field(default_factory=dict)
    held: list[Delivery] = field(default_factory=list)
    """What has come meanwhile."""
    size: int = 0
    oldest_us: dict[str, int] = field(default_factory=dict)
    """By tree: of when the oldest event is that is kept of it."""
    whole_us: dict[str, int] = field(default_factory=dict)
    """By tree: from when on somebody has everything."""

    @property
    def first_us(self) -> int:
        """Of when the oldest event is that anybody keeps; 0 if nobody keeps any."""
        return min(self.oldest_us.values(), default=0)


class Recalling:
    """The subscriptions of a node that begin with the past."""

    def __init__(self, office: Office) -> None:
        settings = office.settings
        self._office = office
        self._readers: dict[int, _Reader] = {}
        self._lookups: dict[int, tuple[int, str]] = {}
        """Whose sources are looked for, and of which tree, by the number of the query that does."""
        self._given: Seen[tuple[int, EventId]] = Seen(settings.seen_us, settings.seen_count_max)
        """What subscriptions have got from the past, and may still be coming to them live."""
        self._last_question = 0

    def __len__(self) -> int:
        return len(self._readers)

    # --- beginning and ending ---

    def recall(self, number: int, past: Past) -> None:
        """Give a subscription the past, when it is in force."""
        office = self._office
        wanted = office.subscribing.wanted(number)
        if wanted is None or len(self._readers) >= office.settings.recall_count_max:
            office.refusals["recalls"] += 1
            office.deliver(CaughtUp(number, 0, 0, "the node has no room for it; try later"))
            return
        predicate, attribute = wanted
        after = place_before(past.since_us) if past.since is None else None
        self._readers[number] = _Reader(number, predicate, attribute, past, after)
        if office.subscribing.state_of(number) is SubscriptionState.IN_FORCE:
            self.on_in_force(number)

    def on_in_force(self, number: int) -> None:
        """A subscription is in force: from here on everything comes to it."""
        reader = self._readers.get(number)
        if reader is not None and not reader.has_begun:
            reader.has_begun = True
            self._look_up(reader)

    def forget(self, number: int) -> None:
        """A subscription ends."""
        if self._readers.pop(number, None) is not None:
            self._office.cancel_timer(("recall", number))

    def deliver(self, delivery: Delivery) -> None:
        """Hand an event to those of its subscriptions that are not given it with the past."""
        if not self._readers and not len(self._given):
            self._office.deliver(delivery)
            return
        ready = []
        for number in delivery.subscriptions:
            reader = self._readers.get(number)
            if reader is not None:
                self._hold(reader, delivery._replace(subscriptions=(number,)))
            elif (number, delivery.event.id) not in self._given:
                ready.append(number)
        if ready:
            self._office.deliver(delivery._replace(subscriptions=tuple(ready)))

    def _hold(self, reader: _Reader, delivery: Delivery) -> None:
        reader.held.append(delivery)
        reader.size += delivery.event.wire_bytes
        self._end_if_too_much(reader)

    # --- whom to ask ---

    def _look_up(self, reader: _Reader) -> None:
        office = self._office
        reader.lookups += 1
        # Of an attribute that is or was split each branch has its own past.
        was_split = office.trees[reader.attribute].stage > WHOLE_STAGE
        trees = names_of(reader.attribute) if was_split else (reader.attribute,)
        reader.looking += len(trees)
        for tree in trees:
            query, effects = office.kademlia.find_closest(tree.encode(), office.now)
            self._lookups[query] = reader.number, tree
            for effect in effects:
                if isinstance(effect, Deliver):  # There was nobody to ask.
                    self.on_found(effect.item)
                else:
                    office.do(effect)

    def on_found(self, found: object) -> None:
        """It is known who lies closest to an attribute."""
        if not isinstance(found, Found) or found.number not in self._lookups:
            return
        number, tree = self._lookups.pop(found.number)
        reader = self._readers.get(number)
        if reader is None:
            return
        after = reader.after or place_before(0)
        keepers = [_Keeper(contact.peer, tree) for contact in found.closest]
        there = [keeper for keeper in keepers if keeper not in reader.silent]
        for keeper in there[: 2 * (self._office.settings.backups + 1)]:
            reader.sources.setdefault(keeper, _Source(after))
        reader.looking -= 1
        if not reader.looking:
            self._go_on(reader)

    # --- asking ---

    def _go_on(self, reader: _Reader) -> None:
        """Ask whoever has more to tell, or come to an end."""
        sources = reader.sources
        while due := [p for p, source in sources.items() if source.is_due]:
            for keeper in due:
                self._ask(reader, keeper)
            if reader.number not in self._readers:
                return  # What the node has itself was too much.
        if all(source.is_done for source in sources.values()):
            self._conclude(reader)
        else:
            self._wait(reader)

    def _ask(self, reader: _Reader, keeper: _Keeper) -> None:
        office, source = self._office, reader.sources[keeper]
        if not source.question:  # Otherwise the same again, to which an answer may be on its way.
            source.question = self.new_question()
        # Whoever has begun to tell of the newest goes on from where it is.
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
        if keeper.peer == office.own.peer:
            self._take(reader, keeper, office.history.answer(part))
        else:
            office.say(keeper.peer, part)

    def new_question(self) -> int:
        """A number for a question about what others keep."""
        self._last_question += 1
        return self._last_question

    def _wait(self, reader: _Reader) -> None:
        office = self._office
        tries = max(source.tries for source in reader.sources.values())
        office.set_timer(("recall", reader.number), office.now + (office.patience_us << tries))

    def on_timer(self, number: int) -> None:
        """Somebody has not answered: see whether it is there, and do without it if not."""
        reader, office = self._readers.get(number), self._office
        if reader is None:
            return
        is_one_gone = False
        for keeper, source in list(reader.sources.items()):
            if source.is_done or not source.question:
                continue
            source.tries += 1
            if office.is_silent(keeper.peer) or source.tries > TRIES_MAX:
                del reader.sources[keeper]
                reader.silent[keeper] = None
                is_one_gone = True
            else:
                office.probing.probe(keeper.peer)
                self._ask(reader, keeper)
        if not reader.sources and reader.lookups >= LOOKUPS_MAX:
            self._end(reader, "nobody who may keep history answers; try later")
        elif is_one_gone and reader.lookups < LOOKUPS_MAX:
            self._look_up(reader)
        else:
            self._go_on(reader)

    # --- what comes ---

    def on_recalled(self, peer: Peer, part: Recalled) -> None:
        """Somebody tells what it keeps."""
        keeper = _Keeper(peer, part.attribute)
        for reader in self._readers.values():
            source = reader.sources.get(keeper)
            if source is not None and source.question == part.number:
                self._take(reader, keeper, part)
                if reader.number in self._readers:
                    self._go_on(reader)
                return

    def _take(self, reader: _Reader, keeper: _Keeper, part: Recalled) -> None:
        source, tree = reader.sources[keeper], keeper.tree
        source.question = source.tries = 0
        if part.oldest_us:
            known_us = reader.oldest_us.get(tree, part.oldest_us)
            reader.oldest_us[tree] = min(known_us, part.oldest_us)
        if part.whole_us:
            known_us = reader.whole_us.get(tree, part.whole_us)
            reader.whole_us[tree] = min(known_us, part.whole_us)
        if reader.after is None:
            self._take_first(reader, source, part)
            return
        source.is_done = not (part.has_more and part.events)
        for event in part.events:
            if not self._is_good(reader, source, event):
                self._office.refusals["recalled events"] += 1
                source.is_done = True  # Who tells what is not so is asked no more.
                break
            source.after = place_of(event)
            if event.id not in reader.events:
                reader.events[event.id] = event
                reader.size += event.wire_bytes
        self._end_if_too_much(reader)

    def _take_first(self, reader: _Reader, source: _Source, part: Recalled) -> None:
        """Whether somebody knows where the event stands that the past begins after."""
        since = reader.past.since
        assert since is not None
        for event in part.events:
            is_it = event.id[1:] == since[1:] and event.id.publisher.endswith(since.publisher)
            if is_it and self._office.signing.is_signed(event):
                reader.after = place_of(event)
                for each in reader.sources.values():
                    each.after, each.question, each.is_done = reader.after, 0, False
                return
        source.is_done = True

    def _is_good(self, reader: _Reader, source: _Source, event: Publication) -> bool:
        """Whether an event is what was asked for; in any other order it could be told for ever."""
        is_asked_for = place_of(event) > source.after and bool(event.created_us)
        return (
            is_asked_for
            and reader.predicate.matches(event.predicate)
            and self._office.signing.is_signed(event)
        )

    # --- handing over ---

    def _conclude(self, reader: _Reader) -> None:
        if reader.after is None:
            since = reader.past.since
            self._end(reader, f"nobody keeps the event {since} any more; say since what time")
            return
        silent = Counter(keeper.tree for keeper in reader.silent)
        if any(count > self._office.settings.backups for count in silent.values()):
            self._end(reader, "too many of those who may keep history do not answer; try later")
            return
        events = sorted(reader.events.values(), key=place_of)
        if reader.past.last:
            events = events[-reader.past.last :]
        self._hand_over(reader, events)
        is_whole = self._is_whole(reader, events)
        told = CaughtUp(reader.number, len(events), reader.first_us, is_whole=is_whole)
        self._office.deliver(told)

    def _is_whole(self, reader: _Reader, events: list[Publication]) -> bool:
        """Whether somebody has had everything since the time from which it is wanted."""
        assert reader.after is not None
        has_as_many = bool(events) and len(events) == reader.past.last
        first_us = events[0].created_us if has_as_many else reader.after.created_us
        return all(
            tree in reader.whole_us and reader.whole_us[tree] <= max(first_us, oldest_us)
            for tree, oldest_us in reader.oldest_us.items()
        )

    def _hand_over(self, reader: _Reader, events: list[Publication]) -> None:
        """Deliver the past and what has come meanwhile, in one order and each once."""
        self.forget(reader.number)
        deliveries = {event.id: Delivery(event, (reader.number,), 0) for event in events}
        for delivery in reader.held:
            deliveries.setdefault(delivery.event.id, delivery)
        for delivery in sorted(deliveries.values(), key=_place_of_delivery):
            self._given.add((reader.number, delivery.event.id), self._office.now)
            self._office.deliver(delivery)

    def _end_if_too_much(self, reader: _Reader) -> None:
        settings = self._office.settings
        count = len(reader.events) + len(reader.held)
        if count > settings.recalled_count_max or reader.size > settings.recalled_bytes_max:
            self._end(reader, "it is more than can be read at once; ask for less of it")

    def _end(self, reader: _Reader, problem: str) -> None:
        """Give the past up; what has come is not lost."""
        self._hand_over(reader, [])
        self._office.deliver(CaughtUp(reader.number, 0, reader.first_us, problem))


def _place_of_delivery(delivery: Delivery) -> Place:
    """Where an event stands; what has no time comes last."""
    created_us, id = place_of(delivery.event)
    return Place(created_us or _UNDATED_US, id)
