"""What was published before a node's time, from the first event on, page by page.

A node asks for all that is below the events with which its time began, but for what it has got of
that already; so nothing that came after them is mistaken for old.
"""

from __future__ import annotations

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.pulsarcast.events import Place, TopicEvent, read_event
from smartpubsub.protocols.pulsarcast.office import Office
from smartpubsub.protocols.pulsarcast.parts import Fetch, Head, Page, Range
from smartpubsub.protocols.pulsarcast.refusals import RefusalError
from smartpubsub.protocols.pulsarcast.room import Backfilling, Room
from smartpubsub.seam import Peer

AGAIN_US = 30 * SECOND
"""How long after nobody had what is wanted they are asked again."""


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
        if room.has_all or room.backfilling is not None or room.is_new:
            return
        if not room.log.before:
            self._finish(room)
            return
        keepers = [contact.peer for contact in room.keepers]
        sources = dict.fromkeys([*keepers, *room.neighbours()])
        sources.pop(self._office.own.peer, None)
        if sources and self._office.now >= room.backfill_again_us:
            room.backfill_again_us = self._office.now + AGAIN_US
            wanted = tuple(room.log.before)[: self._office.settings.names_max]
            room.backfilling = Backfilling(list(sources), wanted)
            self._ask(room, room.backfilling)

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

    def _finish(self, room: Room) -> None:
        room.backfilling = None
        room.has_all = True
        self._office.storing.store_room(room)

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
        office.catching_up.take(room, peer, part.blocks, is_told=False)
        got = self._note(room, backfilling, part.blocks)
        if part.has_more and got:
            self._ask(room, backfilling)
        elif all(cid in room.log for cid in backfilling.wanted):
            self._finish(room)
        else:
            self._next(room, backfilling)

    def _note(self, room: Room, backfilling: Backfilling, blocks: tuple[bytes, ...]) -> int:
        """Note the highest of what has come; how much has."""
        count = 0
        for block in blocks:
            try:
                event = read_event(block)
            except RefusalError:
                continue
            if event.cid in room.log:
                count += 1
                backfilling.got[event.cid] = None
                for parent in event.parents:
                    backfilling.got.pop(parent, None)
        return count

    def on_range(self, peer: Peer, part: Range) -> None:
        """Somebody wants history."""
        room = self._office.rooms.get(part.room)
        found = [] if room is None else history(room, part)
        after = None if part.after is None else part.after.cid
        covered = (after,) if room is not None and after is not None and after in room.log else ()
        self._office.catching_up.send_page(peer, part.room, part.number, found, covered)


def history(room: Room, part: Range) -> list[TopicEvent]:
    """What a room has of what is asked for, in order; nothing after an event nobody has placed."""
    if part.newest:
        return room.log.newest(part.newest)
    place = None if part.after is None else _place(room, part.after)
    if place is not None and not place[0]:
        return []
    return [event for event in room.log.after(place) if event.draft.created_us >= part.since_us]


def _place(room: Room, after: Head) -> Place:
    """Where an event stands, also if whoever asks does not know how high that is and says 0."""
    known = room.log.events.get(after.cid)
    return (after.height, after.cid) if known is None else known.place
