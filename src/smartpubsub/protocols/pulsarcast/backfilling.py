"""What was published before a node's time, from the first event on, page by page.

Links name what is missing below what a node has and knows to be the newest. Others are asked for
that, in turn, until nothing is missing but what they have let go; somebody who is only just getting
it itself gives what it has, and the rest comes from the next.
"""

from __future__ import annotations

from functools import partial

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.pulsarcast.events import TopicEvent, read_event
from smartpubsub.protocols.pulsarcast.gaps import Picture, look
from smartpubsub.protocols.pulsarcast.office import Office
from smartpubsub.protocols.pulsarcast.parts import Fetch, Page, Range
from smartpubsub.protocols.pulsarcast.refusals import RefusalError
from smartpubsub.protocols.pulsarcast.room import Backfilling, Room
from smartpubsub.seam import Peer

AGAIN_US = 30 * SECOND
AGAIN_US_MAX = 10 * MINUTE
"""How long after nobody had what is wanted they are asked again, first and at last."""
SOON_US = 3 * SECOND
"""How soon it goes on after something has come that this node has missed."""


class Backfill:
    """Has a keeper get all of a topic."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def begin_if_wanted(self, room: Room) -> None:
        """Ask for everything if the node is to have it: as a keeper, or for itself."""
        if room.is_pinned or room.keeper_until_us > self._office.now:
            self.begin(room)

    def begin(self, room: Room) -> None:
        """Ask for everything, if it is not here and there is somebody to ask."""
        office = self._office
        if room.has_all or room.backfilling is not None or room.is_new:
            return
        keepers = [contact.peer for contact in room.keepers]
        # Who is close to the topic may have kept it before.
        close = office.kademlia.closest_local(room.id, 2 * office.settings.keepers)
        closest = [contact.peer for contact in close]
        sources = dict.fromkeys([*keepers, *room.neighbours(), *closest])
        sources.pop(office.own.peer, None)
        if sources and office.now >= room.backfill_again_us:
            wait_us = min(AGAIN_US << room.backfill_tries, AGAIN_US_MAX)
            room.backfill_tries += 1
            room.backfill_again_us = office.now + wait_us
            room.backfilling = Backfilling(list(sources))
            self._go_on(room, room.backfilling)

    def look_again(self, room: Room) -> None:
        """See whether everything is here: something of it may have been lost, or have come."""
        room.has_all = (room.has_all or bool(room.log)) and not self._picture(room).missing

    def _picture(self, room: Room) -> Picture:
        return look(room.log.after(None), room.log.heads, room.log.gone, lambda _: True)

    def _go_on(self, room: Room, backfilling: Backfilling) -> None:
        """Ask for what is missing, or come to an end."""
        names_max = self._office.settings.names_max
        picture = self._picture(room)
        # What was missed in this node's time is for somebody else to get, who tells it as well.
        missed = room.unknown.keys() | room.log.missing.keys()
        wanted = tuple([cid for cid in picture.missing if cid not in missed][:names_max])
        backfilling.got = dict.fromkeys(picture.whole[-names_max:])
        if not backfilling.has_answer or (wanted and wanted != backfilling.wanted):
            backfilling.wanted = wanted
            self._ask(room, backfilling)
        elif wanted or not (missed or room.log.heads):
            self._next(room, backfilling)  # It has nothing more of it, or knows nothing at all.
        elif missed:
            room.backfilling = None
            room.backfill_tries, room.backfill_again_us = 0, self._office.now + SOON_US
        else:
            room.backfilling = None
            room.has_all = True
            self._office.storing.store_room(room)

    def _ask(self, room: Room, backfilling: Backfilling) -> None:
        settings = self._office.settings
        backfilling.number = self._office.new_number()
        had = tuple(backfilling.got)[-settings.names_max :]
        part = Fetch(room.id, backfilling.number, backfilling.wanted, had, 0)
        self._office.say(backfilling.sources[0], part)
        wait_us = max(settings.fetch_us, 4 * self._office.answer_us)
        self._office.set_timer(("backfill", room.id), wait_us)

    def on_timer(self, room: Room) -> None:
        """Whoever was asked has not answered."""
        if room.backfilling is not None:
            self._next(room, room.backfilling)

    def _next(self, room: Room, backfilling: Backfilling) -> None:
        """Go on with the next who may have it; when there is none, begin again another time."""
        del backfilling.sources[0]
        if backfilling.sources:
            self._ask(room, backfilling)
        else:
            room.backfilling = None

    def on_page(self, peer: Peer, part: Page) -> None:
        """Some of it has come."""
        office = self._office
        room = office.rooms.get(part.room)
        backfilling = None if room is None else room.backfilling
        if room is None or backfilling is None or backfilling.number != part.number:
            return
        if peer != backfilling.sources[0]:
            return
        office.cancel_timer(("backfill", room.id))
        events = self._read(part.blocks)
        versions = dict.fromkeys(event.topic for event in events)
        unknown = [cid for cid in versions if cid not in room.versions]
        then = partial(self._take, room, backfilling, peer, part, events)
        office.finding.have_versions(room, unknown, peer, then)

    def _read(self, blocks: tuple[bytes, ...]) -> list[TopicEvent]:
        events = []
        for block in blocks:
            try:
                events.append(read_event(block))
            except RefusalError:
                continue  # It is counted when it is taken.
        return events

    def _take(
        self,
        room: Room,
        backfilling: Backfilling,
        peer: Peer,
        part: Page,
        events: list[TopicEvent],
    ) -> None:
        if room.backfilling is not backfilling or backfilling.number != part.number:
            return
        office = self._office
        new = office.catching_up.take(room, peer, part.blocks, is_told=False)
        backfilling.has_answer = True
        if new:
            room.backfill_tries = 0
        office.catching_up.compare(room, part.heads, peer)
        room.log.note_gone(part.gone)
        for event in events:
            if event.cid in room.log:
                backfilling.got[event.cid] = None
                for parent in event.parents:
                    backfilling.got.pop(parent, None)
        if part.has_more and new:
            self._ask(room, backfilling)
        else:
            self._go_on(room, backfilling)

    def on_range(self, peer: Peer, part: Range) -> None:
        """Somebody wants history."""
        room = self._office.rooms.get(part.room)
        page = Page(part.room, part.number, (), False)
        if room is None:
            self._office.catching_up.send_page(peer, page, [])
            return
        page = page._replace(heads=room.heads(self._office.settings.names_max))
        self._office.catching_up.send_page(peer, page, _history(room, part))


def _history(room: Room, part: Range) -> list[TopicEvent]:
    """What a room has of what is asked for, in order."""
    if part.newest:
        return room.log.newest(part.newest)
    place = None if part.after is None else (part.after.height, part.after.cid)
    return [event for event in room.log.after(place) if event.draft.created_us >= part.since_us]
