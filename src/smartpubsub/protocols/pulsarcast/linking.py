"""Events that an application links to: those that are not here are fetched first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.office import Office
from smartpubsub.protocols.pulsarcast.parts import Fetch, Page
from smartpubsub.protocols.pulsarcast.room import Room
from smartpubsub.seam import Peer

AGAIN_US = SECOND
"""How soon somebody else is asked."""
PATIENCE_US = 20 * SECOND


@dataclass(slots=True, eq=False)
class _Wish:
    parents: tuple[Cid, ...]
    until_us: int
    then: Callable[[], None]
    otherwise: Callable[[], None]


@dataclass(slots=True, eq=False)
class _Search:
    """What is looked for in one room."""

    wishes: list[_Wish] = field(default_factory=list)
    asked: int = 0
    number: int = 0
    source: Peer = b""


class Linking:
    """Has the events that others are to link to."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._searches: dict[Cid, _Search] = {}

    def when_here(
        self,
        room: Room,
        parents: tuple[Cid, ...],
        then: Callable[[], None],
        otherwise: Callable[[], None],
    ) -> None:
        """Do something when events are here, or something else if they cannot be had."""
        if all(cid in room.log for cid in parents):
            then()
            return
        office = self._office
        search = self._searches.setdefault(room.id, _Search())
        if len(search.wishes) >= office.settings.waiting_count_max:
            otherwise()
            return
        search.wishes.append(_Wish(parents, office.now + PATIENCE_US, then, otherwise))
        room.wanted_until_us = max(room.wanted_until_us, office.now + PATIENCE_US)
        office.joining.attach(room)
        if len(search.wishes) == 1:
            self._ask(room, search)

    def _ask(self, room: Room, search: _Search) -> None:
        office = self._office
        office.set_timer(("link", room.id), max(AGAIN_US, 3 * office.answer_us))
        keepers = [contact.peer for contact in room.keepers]
        if not keepers:
            office.keeping.find(room)
        everybody = dict.fromkeys([*room.neighbours(), *keepers])
        everybody.pop(office.own.peer, None)
        if not everybody or room.is_new:
            return  # It is not settled yet what else this node has to have.
        lacking = dict.fromkeys(
            cid for wish in search.wishes for cid in wish.parents if cid not in room.log
        )
        search.source = [*everybody][search.asked % len(everybody)]
        search.asked += 1
        search.number = office.new_number()
        wanted = tuple(lacking)[: office.settings.names_max]
        # Of what is older than now only what is wanted itself comes.
        office.say(search.source, Fetch(room.id, search.number, wanted, (), max(0, office.now)))

    def on_page(self, peer: Peer, part: Page) -> None:
        """Some of it has come."""
        room, search = self._office.rooms.get(part.room), self._searches.get(part.room)
        if room is None or search is None or (part.number, peer) != (search.number, search.source):
            return
        search.number = 0
        if self._office.catching_up.take(room, peer, part.blocks, is_told=False):
            self._settle(room, search)

    def on_timer(self, room: Room) -> None:
        """See what has come meanwhile, and ask somebody else for the rest."""
        search = self._searches.get(room.id)
        if search is not None and self._settle(room, search):
            self._ask(room, search)

    def _settle(self, room: Room, search: _Search) -> bool:
        """Go on with what is here now, or cannot be had; whether anything is left."""
        wishes, search.wishes = search.wishes, []
        for wish in wishes:
            if all(cid in room.log for cid in wish.parents):
                wish.then()
            elif self._office.now >= wish.until_us:
                wish.otherwise()
            else:
                search.wishes.append(wish)
        if not search.wishes:
            self._searches.pop(room.id, None)
        return bool(search.wishes)
