"""What a node has missed: it shows in links and in what neighbours have, and is fetched in pages.

Whoever is asked goes down the links from what is wanted to what the asker has, and sends what lies
between, the lowest first, hundreds of events at a time. Neighbours are asked first, then those who
keep the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.events import TopicEvent, read_event
from smartpubsub.protocols.pulsarcast.office import Office
from smartpubsub.protocols.pulsarcast.parts import Fetch, Head, Page
from smartpubsub.protocols.pulsarcast.refusals import RefusalError
from smartpubsub.protocols.pulsarcast.room import Fetching, Room
from smartpubsub.protocols.pulsarcast.spreading import FETCHED_HOPS
from smartpubsub.seam import Peer

UNKNOWN_MAX = 10_000
NEWS_US = 50_000
"""How long news that did not come through the tree is gathered before neighbours are told."""


class CatchingUp:
    """Finds out what is missing, and fetches it."""

    def __init__(self, office: Office) -> None:
        self._office = office

    # --- noticing ---

    def on_place(self, room: Room, heads: Sequence[Head], peer: Peer | None) -> None:
        """The node has a place in a tree: begin with what is there, or see what it has missed."""
        office = self._office
        if not room.is_new:
            self._check_soon(room)
            if peer is not None:
                self.compare(room, heads, peer)
                office.say(peer, office.beating.beat_of(room, wants_answer=False))
            return
        room.is_new = False
        room.log.start_at(heads, office.now - office.settings.skew_us_max)
        office.storing.store_room(room)
        office.backfilling.begin_if_wanted(room)

    def look_again(self, room: Room) -> None:
        """Miss again what was missed before a restart, or is not there any more after it."""
        room.unknown |= dict.fromkeys(room.log.missing, (b"", self._office.now))

    def exchange(self, room: Room, peer: Peer) -> None:
        """Have a neighbour tell what it has, and tell it."""
        self._office.say(peer, self._office.beating.beat_of(room, wants_answer=True))

    def compare(self, room: Room, heads: Iterable[Head], peer: Peer) -> None:
        """See whether somebody has something that this node has not."""
        if room.is_new:
            return
        knows = room.log.knows
        for head in heads:
            if not knows(head.cid) and len(room.unknown) < UNKNOWN_MAX:
                room.unknown.setdefault(head.cid, (peer, self._office.now))
        self._check_soon(room)

    def note_missing(self, room: Room, event: TopicEvent, peer: Peer | None) -> None:
        """See whether an event links to what this node has not."""
        for cid in event.parents:
            if cid in room.log.missing and len(room.unknown) < UNKNOWN_MAX:
                room.unknown.setdefault(cid, (peer or b"", self._office.now))
        self._check_soon(room)

    def _check_soon(self, room: Room) -> None:
        if room.unknown and not room.checks and room.fetching is None:
            room.checks = True
            self._office.set_timer(("check", room.id), self._office.grace_us)

    # --- asking ---

    def on_check(self, room: Room) -> None:
        """Ask for what has not come meanwhile."""
        room.checks = False
        if room.fetching is None:
            self._ask(room)

    def _ask(self, room: Room) -> None:
        office = self._office
        log = room.log
        self._give_up_lost(room)
        room.unknown = {c: about for c, about in room.unknown.items() if c not in log.events}
        if not room.unknown:
            room.fetch_tries = 0
            return
        peer = self._source(room)
        if peer is None:
            self._again(room)
            return
        names_max = office.settings.names_max
        number = office.new_number()
        room.fetching = Fetching(number, peer, office.now)
        wanted = tuple(room.unknown)[:names_max]
        had = tuple(log.whole)[-names_max:]
        office.say(peer, Fetch(room.id, number, wanted, had, max(0, log.floor_us)))
        wait_us = max(office.settings.fetch_us, 4 * office.answer_us)
        office.set_timer(("fetch", room.id), wait_us)

    def _source(self, room: Room) -> Peer | None:
        """Whom to ask: who knows of it, then the neighbours, then the keepers, in turn."""
        informants = [peer for peer, _ in room.unknown.values() if peer]
        keepers = [c.peer for c in room.keepers]
        everybody = dict.fromkeys([*informants[:1], *room.neighbours(), *informants[:8], *keepers])
        everybody.pop(self._office.own.peer, None)
        if room.fetch_tries >= len(everybody) // 2:
            self._office.keeping.find(room)
        sources = list(everybody)
        return sources[room.fetch_tries % len(sources)] if sources else None

    def _again(self, room: Room) -> None:
        """Try somebody else, the later the more have been tried."""
        room.fetching = None
        room.fetch_tries += 1
        if not room.checks:
            room.checks = True
            after_us = min(2 ** min(room.fetch_tries, 8) * self._office.grace_us, 30_000_000)
            self._office.set_timer(("check", room.id), after_us)

    def _give_up_lost(self, room: Room) -> None:
        oldest = self._office.now - self._office.settings.lost_us
        for cid in [cid for cid, (_, since) in room.unknown.items() if since < oldest]:
            del room.unknown[cid]
            self._office.lost += 1
            room.has_all = False
            self._office.spreading.go_on_without(room, cid)

    def on_fetch_timer(self, room: Room) -> None:
        """Whoever was asked has not answered."""
        if room.fetching is not None:
            self._again(room)

    def on_page(self, peer: Peer, part: Page) -> None:
        """Something that was missing has come."""
        office = self._office
        room = office.rooms.get(part.room)
        fetching = None if room is None else room.fetching
        if (
            room is None
            or fetching is None
            or (fetching.number, fetching.peer)
            != (
                part.number,
                peer,
            )
        ):
            return
        office.cancel_timer(("fetch", room.id))
        room.fetching = None
        for cid in part.covered:
            if room.unknown.pop(cid, None) is not None:
                office.spreading.go_on_without(room, cid)
        came = self.take(room, peer, part.blocks)
        if came:
            room.fetch_tries = 0
            office.set_timer(("news", room.id), NEWS_US)
        if part.has_more and came:
            self._ask(room)
        elif room.unknown:
            if came:
                self._check_soon(room)
            else:
                self._again(room)

    def take(self, room: Room, peer: Peer, blocks: Sequence[bytes], *, is_told: bool = True) -> int:
        """Take what is good of a page; how many events are new."""
        events: list[TopicEvent] = []
        for block in blocks:
            try:
                events.append(read_event(block))
            except RefusalError as error:
                self._office.refuse(error)
        linked = {cid for event in events for cid in event.parents}
        came = 0
        for event in events:
            if event.cid in room.log.events:
                continue
            if event.topic not in room.versions:
                self._office.finding.hear_of_version(room, event.topic, peer)
                break  # The rest comes again when the version is known.
            is_linked = event.cid in linked or event.cid in room.log.missing
            taken = self._office.spreading.take(
                room, event, FETCHED_HOPS, peer, is_linked=is_linked, is_told=is_told
            )
            if taken:
                came += 1
                self.note_unspread(room, event.cid)
            elif event.place <= room.log.horizon:
                room.unknown.pop(event.cid, None)
                self._office.spreading.go_on_without(room, event.cid)
        return came

    def note_unspread(self, room: Room, cid: Cid) -> None:
        """An event has come otherwise than through the tree."""
        room.unspread[cid] = None
        if len(room.unspread) > self._office.settings.unspread_count_max:
            del room.unspread[next(iter(room.unspread))]

    def on_news(self, room: Room) -> None:
        """Tell neighbours of what came otherwise than through the tree."""
        self._office.beating.tell_news(room)

    # --- being asked ---

    def on_fetch(self, peer: Peer, part: Fetch) -> None:
        """Somebody has missed something."""
        room = self._office.rooms.get(part.room)
        if room is None:
            self.send_page(peer, Page(part.room, part.number, (), False), [])
            return
        found = room.log.beyond(part.wanted, part.had, part.since_us)
        sent = {event.cid for event in found}
        covered = tuple(cid for cid in part.wanted if cid in room.log and cid not in sent)
        gone = tuple(cid for cid in part.wanted if cid in room.log.gone)
        heads = room.heads(self._office.settings.names_max)
        page = Page(part.room, part.number, (), False, covered, heads, gone)
        self.send_page(peer, page, found)

    def send_page(self, peer: Peer, page: Page, found: list[TopicEvent]) -> None:
        """Send a page with the first of some events, as many as go in one message."""
        settings = self._office.settings
        blocks: list[bytes] = []
        size = 0
        for event in found[: settings.page_count_max]:
            size += len(event.block)
            if blocks and size > settings.page_bytes_max:
                break
            blocks.append(event.block)
        has_more = len(blocks) < len(found)
        heads = () if has_more else page.heads
        said = page._replace(blocks=tuple(blocks), has_more=has_more, heads=heads)
        self._office.say(peer, said)
