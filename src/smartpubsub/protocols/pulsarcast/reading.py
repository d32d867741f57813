"""History: what a topic's keepers have of it, asked for since an event, since a time, or the last.

One of them is read, in the topic's order and page by page, and the others are asked what they know
to be the newest. Links then tell what is missing: that is fetched from the others, from neighbours
and from more of those closest to the topic. What cannot be found is told with the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.queries import Found
from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.checking import check_event
from smartpubsub.protocols.pulsarcast.events import Place, TopicEvent, read_event
from smartpubsub.protocols.pulsarcast.gathering import Gathering, Wanted
from smartpubsub.protocols.pulsarcast.office import Office
from smartpubsub.protocols.pulsarcast.parts import Fetch, Head, Page, Range
from smartpubsub.protocols.pulsarcast.refusals import RefusalError
from smartpubsub.protocols.pulsarcast.room import Room
from smartpubsub.protocols.pulsarcast.told import HistoryRead
from smartpubsub.seam import Peer

STAY_US = 10 * MINUTE
LOOK_AGAIN_US = SECOND
"""How soon after the keepers were looked for there may be somebody to ask."""
TRIES_MAX = 10
SOURCES_MAX = 16
HISTORY_COUNT_MAX = 1_000_000


@dataclass(slots=True, eq=False)
class _Reader:
    room: Room
    wanted: Wanted
    number: int
    gathering: Gathering
    is_placed: bool
    """Whether it is known where the event stands since which history is wanted."""
    tries: int = 0
    keepers: tuple[Peer, ...] = ()
    sources: list[Peer] = field(default_factory=list)
    """Who may have it, from the one that is asked now on."""
    has_widened: bool = False
    question: int = 0
    """What the first source was asked and has not answered; 0 if there is nothing."""
    polls: dict[int, Peer] = field(default_factory=dict)
    """The others that were asked what is the newest, by the numbers of the questions."""
    after: Place | None = None
    """Up to where the first source has been read."""
    is_filling: bool = False
    """Whether it has been read to the end, and what is missing is looked for."""
    unaware: dict[Peer, None] = field(default_factory=dict)
    """Who has said that they do not have the event since which history is wanted."""
    answered: dict[Peer, None] = field(default_factory=dict)


class Reading:
    """Reads history for applications."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._readers: dict[int, _Reader] = {}
        self._questions: dict[int, _Reader] = {}

    def read(self, topic: Cid, wanted: Wanted, number: int) -> None:
        """Read history; `HistoryRead` comes, with the number."""
        self._office.finding.room(topic, partial(self._on_room, wanted, number))

    def _on_room(self, wanted: Wanted, number: int, room: Room | None) -> None:
        office = self._office
        if room is None:
            office.deliver(HistoryRead(number, None, ()))
            return
        gathering = Gathering(wanted, office.settings.skew_us_max)
        gathering.heads |= room.log.heads
        gathering.gone |= room.log.gone
        since = None if wanted.since is None else room.log.events.get(wanted.since)
        is_placed = wanted.since is None or since is not None
        reader = _Reader(room, wanted, number, gathering, is_placed)
        if since is not None:
            gathering.after = reader.after = since.place
        if room.has_all and is_placed:
            log = room.log
            gathering.add(log.newest(wanted.last) if wanted.last else log.after(reader.after))
            if not gathering.picture().missing:
                self._tell(reader)
                return
        room.wanted_until_us = max(room.wanted_until_us, office.now + STAY_US)
        self._readers[number] = reader
        # Who may have published what is said by the versions.
        office.describing.when_settled(room, partial(self._find_sources, reader))

    # --- whom to ask ---

    def _find_sources(self, reader: _Reader) -> None:
        self._office.keeping.when_found(reader.room, partial(self._begin, reader))

    def _begin(self, reader: _Reader) -> None:
        office, room = self._office, reader.room
        if reader.number not in self._readers:
            return
        own = office.own.peer
        keepers = [contact.peer for contact in room.keepers]
        reader.keepers = tuple(peer for peer in keepers if peer != own)
        sources = [*dict.fromkeys([*reader.keepers, *room.neighbours()])]
        reader.sources = sources[:SOURCES_MAX]
        if reader.sources:
            self._poll(reader)
            # What this node has is not read from others.
            (self._go_on if reader.gathering.events else self._ask)(reader)
        elif own in keepers:  # Nobody else is there.
            reader.has_widened = True
            self._go_on(reader)
        else:
            office.set_timer(("read", reader.number), LOOK_AGAIN_US)

    def _poll(self, reader: _Reader) -> None:
        """Ask all keepers what is the newest."""
        for peer in reader.keepers:
            number = self._new_question(reader)
            reader.polls[number] = peer
            self._office.say(peer, Fetch(reader.room.id, number, (), (), 0))

    def _widen(self, reader: _Reader, found: Found) -> None:
        """Go on with more of those closest to the topic, who may have kept it before."""
        if reader.number not in self._readers:
            return
        known = (self._office.own.peer, *reader.keepers, *reader.room.neighbours())
        more = [contact.peer for contact in found.closest if contact.peer not in known]
        reader.sources = more[: 2 * self._office.settings.keepers]
        self._go_on(reader)

    # --- asking ---

    def _new_question(self, reader: _Reader) -> int:
        number = self._office.new_number()
        self._questions[number] = reader
        return number

    def _ask(self, reader: _Reader) -> None:
        """Ask the first source for what comes next."""
        office, gathering = self._office, reader.gathering
        names_max = office.settings.names_max
        room, number = reader.room.id, self._new_question(reader)
        part: Fetch | Range
        if not reader.is_placed and reader.wanted.since is not None:
            # Of what is older than now only what is wanted itself comes.
            part = Fetch(room, number, (reader.wanted.since,), (), max(0, office.now))
        elif reader.is_filling:
            picture = gathering.picture()
            wanted, had = picture.missing[:names_max], picture.whole[-names_max:]
            part = Fetch(room, number, wanted, had, gathering.since_us())
        else:
            newest = 0 if gathering.events else reader.wanted.last
            after = None if reader.after is None else Head(reader.after[1], reader.after[0])
            part = Range(room, number, after, gathering.floor_us, newest)
        reader.question = number
        office.say(reader.sources[0], part)
        self._wait(reader)

    def _wait(self, reader: _Reader) -> None:
        office = self._office
        wait_us = max(office.settings.fetch_us, 4 * office.answer_us)
        office.set_timer(("read", reader.number), wait_us)

    def on_timer(self, number: int) -> None:
        """Some of those who were asked have not answered, or nobody was known."""
        reader = self._readers.get(number)
        if reader is None:
            return
        reader.polls.clear()
        if not reader.sources and not reader.is_filling:
            self._try_again(reader)
        elif reader.question:
            reader.tries += not reader.is_filling
            self._next(reader)
        else:
            self._go_on(reader)

    def _try_again(self, reader: _Reader) -> None:
        reader.tries += 1
        if reader.tries > TRIES_MAX:
            self._end(reader, HistoryRead(reader.number, None, ()))
        else:
            self._find_sources(reader)

    def _next(self, reader: _Reader) -> None:
        """Go on without the first source."""
        reader.question = 0
        del reader.sources[0]
        if reader.is_filling:
            self._go_on(reader)
        elif reader.sources:
            self._ask(reader)
        elif not reader.is_placed and reader.unaware:
            self._end(reader, self._unknown(reader))
        elif reader.is_placed and reader.answered:
            self._go_on(reader)
        else:
            self._try_again(reader)

    def _go_on(self, reader: _Reader) -> None:
        """Look for what is missing, or come to an end."""
        office, gathering = self._office, reader.gathering
        if not reader.is_placed:  # Nobody else is there who could know where it begins.
            self._end(reader, self._unknown(reader))
            return
        reader.is_filling = True
        if reader.polls:
            self._wait(reader)
            return
        gathering.add_own(reader.room.log.events)
        # What tells of the topic itself is an event, so whoever knows of none knows nothing.
        is_whole = bool(gathering.heads) and not gathering.picture().missing
        if is_whole or len(gathering.events) >= HISTORY_COUNT_MAX:
            self._tell(reader)
        elif reader.sources:
            self._ask(reader)
        elif not reader.has_widened:
            reader.has_widened = True
            office.look_up(reader.room.id, partial(self._widen, reader))
        elif gathering.heads:
            self._tell(reader)
        else:
            self._end(reader, HistoryRead(reader.number, None, ()))

    # --- what comes ---

    def on_page(self, peer: Peer, part: Page) -> None:
        """Somebody answers."""
        reader = self._questions.get(part.number)
        if reader is None or part.room != reader.room.id:
            return
        is_first = part.number == reader.question and peer == reader.sources[0]
        if not is_first and reader.polls.get(part.number) != peer:
            return
        del self._questions[part.number]
        reader.answered[peer] = None
        reader.gathering.heads |= dict(part.heads)
        reader.gathering.gone |= dict.fromkeys(part.gone)
        if not is_first:
            del reader.polls[part.number]
            if reader.is_filling and not reader.polls and not reader.question:
                self._office.cancel_timer(("read", reader.number))
                self._go_on(reader)
            return
        self._office.cancel_timer(("read", reader.number))
        events = self._read(part.blocks)
        versions = dict.fromkeys(event.topic for event in events)
        unknown = [cid for cid in versions if cid not in reader.room.versions]
        then = partial(self._take, reader, part, events)
        self._office.finding.have_versions(reader.room, unknown, peer, then)

    def _take(self, reader: _Reader, part: Page, events: list[TopicEvent]) -> None:
        if reader.number not in self._readers:
            return
        reader.question = 0
        good = [event for event in events if self._is_good(reader.room, event)]
        if not reader.is_placed:
            self._take_since(reader, good)
            return
        new = reader.gathering.add(good)
        if reader.is_filling:
            if new:
                self._go_on(reader)
            else:
                self._next(reader)
        elif not part.blocks and not part.heads and len(reader.sources) > 1:
            self._next(reader)  # It has not heard of the topic.
        elif part.has_more and new and len(reader.gathering.events) < HISTORY_COUNT_MAX:
            reader.after = good[-1].place
            self._ask(reader)
        else:
            self._go_on(reader)

    def _take_since(self, reader: _Reader, good: list[TopicEvent]) -> None:
        since = next((event for event in good if event.cid == reader.wanted.since), None)
        if since is None:
            reader.unaware[reader.sources[0]] = None
            self._next(reader)
            return
        reader.is_placed = True
        reader.gathering.after = reader.after = since.place
        self._ask(reader)

    def _read(self, blocks: tuple[bytes, ...]) -> list[TopicEvent]:
        events = []
        for block in blocks:
            try:
                events.append(read_event(block))
            except RefusalError as error:
                self._office.refuse(error)
        return events

    def _is_good(self, room: Room, event: TopicEvent) -> bool:
        office = self._office
        topic = room.versions.get(event.topic)
        if topic is None:  # Nobody knows who might publish in it.
            office.refused["incomplete"] += 1
            return False
        try:
            latest_us = office.now + office.settings.skew_us_max
            check_event(event, topic, None, office.signing, latest_us)
        except RefusalError as error:
            office.refuse(error)
            return False
        return True

    # --- telling ---

    def _tell(self, reader: _Reader) -> None:
        picture = reader.gathering.picture()
        told = HistoryRead(
            reader.number,
            reader.room.topic,
            reader.gathering.told(),
            missing=picture.missing,
            let_go=picture.let_go,
            silent=sum(peer not in reader.answered for peer in reader.keepers),
        )
        self._end(reader, told)

    def _unknown(self, reader: _Reader) -> HistoryRead:
        return HistoryRead(reader.number, reader.room.topic, (), is_since_known=False)

    def _end(self, reader: _Reader, told: HistoryRead) -> None:
        self._readers.pop(reader.number, None)
        self._questions = {n: other for n, other in self._questions.items() if other is not reader}
        self._office.cancel_timer(("read", reader.number))
        self._office.deliver(told)
