"""History: what a topic's keepers have of it, asked for since an event, since a time, or the last.

It is read in the topic's order, page by page, and each event is checked as if it had just come.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.backfilling import history
from smartpubsub.protocols.pulsarcast.checking import check_event
from smartpubsub.protocols.pulsarcast.events import TopicEvent, read_event
from smartpubsub.protocols.pulsarcast.office import Office
from smartpubsub.protocols.pulsarcast.parts import Head, Page, Range
from smartpubsub.protocols.pulsarcast.refusals import RefusalError
from smartpubsub.protocols.pulsarcast.room import Room
from smartpubsub.protocols.pulsarcast.told import HistoryRead
from smartpubsub.seam import Peer

STAY_US = 10 * MINUTE
LOOK_AGAIN_US = SECOND
"""How soon after the keepers were looked for there may be somebody to ask."""
TRIES_MAX = 10
HISTORY_COUNT_MAX = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which part of a topic's history; all of it if nothing is said."""

    since: Cid | None = None
    """What stands after this event."""
    since_us: int = 0
    last: int = 0
    """The newest so many; 0 for any number."""


@dataclass(slots=True, eq=False)
class _Reader:
    room: Room
    wanted: Wanted
    number: int
    tries: int = 0
    source: Peer = b""
    after: Head | None = None
    is_placed: bool = True
    """Whether it is known where the event stands since which history is wanted."""
    unaware: dict[Peer, None] = field(default_factory=dict)
    """Who has said that they do not have that event."""
    events: list[TopicEvent] = field(default_factory=list)


class Reading:
    """Reads history for applications."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._readers: dict[int, _Reader] = {}

    def read(self, topic: Cid, wanted: Wanted, number: int) -> None:
        """Read history; `HistoryRead` comes, with the number."""
        self._office.finding.room(topic, partial(self._on_room, wanted, number))

    def _on_room(self, wanted: Wanted, number: int, room: Room | None) -> None:
        office = self._office
        if room is None:
            office.deliver(HistoryRead(number, None, ()))
            return
        since = None if wanted.since is None else room.log.events.get(wanted.since)
        reader = _Reader(room, wanted, number)
        if wanted.since is not None:
            reader.after = Head(wanted.since, 0 if since is None else since.height)
            reader.is_placed = since is not None
        if room.has_all and reader.is_placed:
            found = history(room, self._part(reader))
            office.deliver(HistoryRead(number, room.topic, tuple(found)))
            return
        room.wanted_until_us = max(room.wanted_until_us, office.now + STAY_US)
        self._readers[number] = reader
        # Who may have published what is said by the versions.
        office.describing.when_settled(room, partial(self._ask, reader))

    def _part(self, reader: _Reader) -> Range:
        newest = 0 if reader.events else reader.wanted.last
        return Range(reader.room.id, reader.number, reader.after, reader.wanted.since_us, newest)

    def _ask(self, reader: _Reader) -> None:
        office, room = self._office, reader.room
        keepers = [contact.peer for contact in room.keepers]
        sources = [peer for peer in keepers if peer != office.own.peer]
        if not sources or not reader.is_placed:  # An event may have come to neighbours only.
            sources += [peer for peer in room.neighbours() if peer not in sources]
        sources = [peer for peer in sources if peer not in reader.unaware]
        if not keepers:
            office.keeping.find(room)
        elif not sources and (reader.unaware or (room.has_all and not reader.is_placed)):
            self._give_up(reader)
            return
        if not sources:
            office.set_timer(("read", reader.number), LOOK_AGAIN_US)
            return
        reader.source = sources[reader.tries % len(sources)]
        office.say(reader.source, self._part(reader))
        wait_us = max(office.settings.fetch_us, 4 * office.answer_us)
        office.set_timer(("read", reader.number), wait_us)

    def on_timer(self, number: int) -> None:
        """Whoever was asked has not answered, or nobody was known."""
        reader = self._readers.get(number)
        if reader is None:
            return
        reader.tries += 1
        if reader.tries > TRIES_MAX:
            self._give_up(reader)
        else:
            self._ask(reader)

    def _give_up(self, reader: _Reader) -> None:
        """Nobody is there who has what is wanted, or nobody of them knows since when it is."""
        del self._readers[reader.number]
        is_had = bool(reader.unaware) or reader.room.has_all
        if is_had and not reader.is_placed:
            told = HistoryRead(reader.number, reader.room.topic, (), is_since_known=False)
        else:
            told = HistoryRead(reader.number, None, ())
        self._office.deliver(told)

    def on_page(self, peer: Peer, part: Page) -> None:
        """Some of it has come."""
        reader = self._readers.get(part.number)
        if reader is None or peer != reader.source or part.room != reader.room.id:
            return
        self._office.cancel_timer(("read", reader.number))
        if not reader.is_placed and reader.wanted.since not in part.covered:
            reader.unaware[peer] = None
            self._ask(reader)
            return
        reader.is_placed = True
        events = self._read(part.blocks)
        versions = dict.fromkeys(event.topic for event in events)
        unknown = [cid for cid in versions if cid not in reader.room.versions]
        then = partial(self._take, reader, part, events)
        self._office.finding.have_versions(reader.room, unknown, peer, then)

    def _take(self, reader: _Reader, part: Page, events: list[TopicEvent]) -> None:
        if reader.number not in self._readers:
            return
        good = [event for event in events if self._is_good(reader.room, event)]
        reader.events += good
        if part.has_more and good and len(reader.events) < HISTORY_COUNT_MAX:
            reader.after = Head(good[-1].cid, good[-1].height)
            self._ask(reader)
            return
        del self._readers[reader.number]
        told = HistoryRead(reader.number, reader.room.topic, tuple(reader.events))
        self._office.deliver(told)

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
