"""Keepers: the nodes closest to a topic, on which its events are stored.

An event counts as published when all of them have it. They are members of the tree like others, and
have everything from the first event on, so whoever comes later can have it from them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.queries import Found
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Published
from smartpubsub.protocols.pulsarcast.events import TopicEvent, read_event
from smartpubsub.protocols.pulsarcast.office import Office
from smartpubsub.protocols.pulsarcast.parts import Invite, Keep, Kept
from smartpubsub.protocols.pulsarcast.refusals import RefusalError
from smartpubsub.protocols.pulsarcast.room import Keeping, Room
from smartpubsub.protocols.pulsarcast.spreading import FETCHED_HOPS
from smartpubsub.seam import Peer

SPARE_KEEPERS = 5
"""How many more have to have answered before it is believed who the keepers are."""
KEEP_AT_ONCE_MAX = 100
"""How many events are sent again at once to keepers that have not answered."""


class Keepers:
    """Has events kept by others, and keeps those of others."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._then: dict[EventId, Callable[[], None]] = {}
        self._waiting: dict[Cid, list[Callable[[], None]]] = {}
        """What is to be done in each room once its keepers have been looked for."""
        self._lost: dict[Peer, int] = {}
        """Who could not be reached, and for how long they are not asked to keep anything."""

    # --- who they are ---

    def find(self, room: Room) -> None:
        """Find out who keeps a topic."""
        if room.is_finding_keepers or not self._office.is_ready:
            return
        room.is_finding_keepers = True
        count = self._office.settings.keepers + SPARE_KEEPERS
        self._office.look_up(room.id, partial(self._on_found, room), count)

    def when_found(self, room: Room, then: Callable[[], None]) -> None:
        """Do something when it is known who keeps a topic now, as far as that can be found."""
        if room.keepers and self._is_fresh(room):
            then()
            return
        self._waiting.setdefault(room.id, []).append(then)
        self.find(room)

    def _is_fresh(self, room: Room) -> bool:
        return self._office.now - room.keepers_us < self._office.settings.keepers_us

    def _on_found(self, room: Room, found: Found) -> None:
        room.is_finding_keepers = False
        self._take_found(room, found)
        for then in self._waiting.pop(room.id, []):
            then()

    def _take_found(self, room: Room, found: Found) -> None:
        if len(found.closest) <= 1 and self._office.has_company:
            return  # Cut off: nobody else would know what this node keeps.
        room.keepers = found.closest[: self._office.settings.keepers]
        room.keepers_us = self._office.now
        for contact in room.keepers:
            if room.is_root or contact.peer == self._office.own.peer:
                self._invite(room, contact)
        for keeping in list(room.keeping.values())[:KEEP_AT_ONCE_MAX]:
            self._send(room, keeping)

    def _invite(self, room: Room, contact: Contact) -> None:
        if contact.peer == self._office.own.peer:
            self._be_keeper(room)
        else:
            self._office.say(contact.peer, Invite(room.id, room.topic.cid))

    def invite(self, room: Room) -> None:
        """Find the keepers of a topic, and tell them that they are."""
        self.find(room)

    def _be_keeper(self, room: Room) -> None:
        office = self._office
        was_keeper = room.keeper_until_us > office.now
        room.keeper_until_us = office.now + office.settings.lease_us
        if not was_keeper:
            office.storing.store_room(room)
            office.joining.attach(room)
            office.backfilling.begin(room)

    def on_invite(self, contact: Contact, part: Invite) -> None:
        """This node is one of those who keep a topic."""
        self._office.finding.room(part.topic, self._on_invited, contact.peer)

    def _on_invited(self, room: Room | None) -> None:
        if room is not None:
            self._be_keeper(room)

    # --- having events kept ---

    def keep(self, room: Room, event: TopicEvent, then: Callable[[], None] | None = None) -> None:
        """Have an event of this node's kept; `Published` comes, or something else happens then."""
        keeping = room.keeping[event.cid] = Keeping(event, self._office.now)
        if then is not None:
            self._then[event.id] = then
        if room.keepers and self._is_fresh(room):
            self._send(room, keeping)
        else:
            self.find(room)
        self._set_timer(room)

    def _send(self, room: Room, keeping: Keeping) -> None:
        part = Keep(room.id, room.topic.cid, (keeping.event.block,))
        for contact in room.keepers:
            if contact.peer == self._office.own.peer:
                keeping.kept_by[contact.peer] = None
            elif contact.peer not in keeping.kept_by:
                self._office.say(contact.peer, part)
        self._settle(room, keeping)

    def _settle(self, room: Room, keeping: Keeping) -> None:
        if not room.keepers or any(c.peer not in keeping.kept_by for c in room.keepers):
            return
        event = keeping.event
        if room.keeping.pop(event.cid, None) is None:
            return
        then = self._then.pop(event.id, None)
        if then is not None:
            then()
        elif event.id.publisher == self._office.own.peer:
            self._office.deliver(Published(event.id))

    def _set_timer(self, room: Room) -> None:
        if not room.keep_is_set:
            room.keep_is_set = True
            self._office.set_timer(("keep", room.id), self._wait_us)

    @property
    def _wait_us(self) -> int:
        """How long keepers are waited for."""
        return max(self._office.settings.keep_us, 4 * self._office.answer_us)

    def on_timer(self, room: Room) -> None:
        """Look whether keepers have answered; those who have not may be none any more."""
        room.keep_is_set = False
        if not room.keeping:
            return
        self._set_timer(room)
        late_us = self._office.now - self._wait_us
        late = [keeping for keeping in room.keeping.values() if keeping.called_us <= late_us]
        if late and not self._is_on_its_way(room, late, late_us):
            self.find(room)

    def _is_on_its_way(self, room: Room, late: list[Keeping], late_us: int) -> bool:
        """Whether those who have not answered are there, and may just be busy."""
        asked_us = min(keeping.called_us for keeping in late)
        owing = [c.peer for c in room.keepers if any(c.peer not in k.kept_by for k in late)]
        are_there = all(self._office.has_heard_from(peer, late_us) for peer in owing)
        return bool(owing) and are_there and asked_us > late_us - self._wait_us

    def on_disconnected(self, peer: Peer) -> None:
        """A connection is lost, or could not be made: what waits for that keeper goes to others."""
        office = self._office
        rooms = [room for room in office.rooms.values() if room.keeping]
        rooms = [room for room in rooms if any(c.peer == peer for c in room.keepers)]
        if not rooms:
            return
        self._lost = {p: until for p, until in self._lost.items() if until > office.now}
        self._lost[peer] = office.now + office.settings.avoid_us
        for room in rooms:
            self._do_without(room, peer)

    def _do_without(self, room: Room, peer: Peer) -> None:
        """Have the next closest be keepers, until a lookup says who are; it may take long."""
        office, count = self._office, self._office.settings.keepers
        staying = [contact for contact in room.keepers if contact.peer != peer]
        known = office.kademlia.closest_local(room.id, count + len(self._lost) + 1)
        key = key_of(room.id)
        near = sorted([*known, office.own], key=lambda contact: contact.key ^ key)
        others = [c for c in near if c.peer not in self._lost and c not in staying]
        keepers = tuple([*staying, *others][:count])
        if any(contact.peer != office.own.peer for contact in keepers):  # It is not cut off.
            room.keepers = keepers
            for keeping in list(room.keeping.values())[:KEEP_AT_ONCE_MAX]:
                self._send(room, keeping)
        self.find(room)

    def on_kept(self, peer: Peer, part: Kept) -> None:
        """A keeper has events."""
        room = self._office.rooms.get(part.room)
        if room is None:
            return
        for cid in part.cids:
            keeping = room.keeping.get(cid)
            if keeping is not None:
                keeping.kept_by[peer] = None
                self._settle(room, keeping)

    # --- keeping ---

    def on_keep(self, contact: Contact, part: Keep) -> None:
        """Somebody has published, and this node is to keep it."""
        then = partial(self._on_keep, contact.peer, part.blocks)
        self._office.finding.room(part.topic, then, contact.peer)

    def _on_keep(self, peer: Peer, blocks: tuple[bytes, ...], room: Room | None) -> None:
        if room is None:
            return
        self._be_keeper(room)
        kept = []
        for block in blocks:
            try:
                event = read_event(block)
            except RefusalError as error:
                self._office.refuse(error)
                continue
            if self._has(room, event, peer):
                kept.append(event.cid)
        if kept:
            self._office.say(peer, Kept(room.id, tuple(kept)))

    def _has(self, room: Room, event: TopicEvent, peer: Peer) -> bool:
        if event.cid in room.log.events:
            return True
        if event.topic not in room.versions:
            self._office.finding.hear_of_version(room, event.topic, peer)
            return False
        if room.is_new:
            room.log.floor_us = self._office.now - self._office.settings.skew_us_max
        if not self._office.spreading.take(room, event, FETCHED_HOPS, peer):
            return False
        self._office.catching_up.note_unspread(room, event.cid)
        return True
