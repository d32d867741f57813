"""Trees: each node below one that is closer to the topic's author, and with few below itself.

Whoever is handed from one node to another only ever comes below somebody closer to the author than
itself, so there are no cycles, whatever anybody believes at the time. The root is the author, or
while it is away the live node closest to it.
"""

from __future__ import annotations

from functools import partial

from smartpubsub.kademlia.keys import Contact, Key
from smartpubsub.kademlia.queries import Found
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pubsub import Subscribed
from smartpubsub.protocols.pulsarcast.office import Office
from smartpubsub.protocols.pulsarcast.parts import (
    Elsewhere,
    Join,
    Leave,
    Wait,
    Welcome,
)
from smartpubsub.protocols.pulsarcast.room import Child, Room
from smartpubsub.seam import Peer

REDIRECTS_MAX = 64
CLOSEST_LOOKED_AT = 5
BUSY_TRIES_MAX = 4
"""How often more somebody is asked who does not answer but is there."""


class Joining:
    """The node's places in the trees of its topics."""

    def __init__(self, office: Office) -> None:
        self._office = office

    # --- finding a place ---

    def attach(self, room: Room) -> None:
        """Find a place in a topic's tree, if the node has none and is not looking for one."""
        if room.is_attached or room.joining is not None or room.is_seeking:
            return
        if not self._office.is_ready:
            return  # When it is, all rooms are attached.
        if room.topic.author == self._office.own.peer:
            self._be_root(room)
            return
        closer = self._closer_known(room)
        if closer is not None:
            self._ask(room, closer)
        elif room.is_new or not self._knows_others():
            self._seek(room)
        else:
            # Whoever has lost its parent and knows nobody closer is root, unless a lookup finds
            # somebody, which may take as long as it takes to be sure that the lost one is gone.
            self._be_root(room)

    def _closer_known(self, room: Room) -> Contact | None:
        known = self._office.kademlia.closest_local(room.topic.author, CLOSEST_LOOKED_AT)
        return next((contact for contact in known if self._is_parent_for(room, contact)), None)

    def _knows_others(self) -> bool:
        return bool(self._office.kademlia.closest_local(self._office.own.peer, 1))

    def _is_parent_for(self, room: Room, contact: Contact) -> bool:
        is_closer = contact.key ^ room.target < room.own_distance
        return is_closer and not self._is_avoided(room, contact)

    def _is_avoided(self, room: Room, contact: Contact) -> bool:
        return room.avoided.get(contact.peer, 0) > self._office.now

    def _seek(self, room: Room) -> None:
        room.is_seeking = True
        self._office.look_up(room.topic.author, partial(self._on_found, room))

    def _on_found(self, room: Room, found: Found) -> None:
        room.is_seeking = False
        if self._office.rooms.get(room.id) is not room or room.joining is not None:
            return
        closer = [c for c in found.closest if self._is_parent_for(room, c)]
        if closer:
            if room.parent is None:
                self._ask(room, closer[0])
        elif room.parent is None and self._is_alone(found):
            self._office.set_timer(("attach", room.id), self._office.settings.join_us)
        elif room.parent is None and not room.is_root:
            self._be_root(room)

    def _is_alone(self, found: Found) -> bool:
        """Whether nobody answers any more, although there have been others."""
        return len(found.closest) <= 1 and self._office.has_company

    def _ask(self, room: Room, contact: Contact) -> None:
        room.joining = contact
        room.tries = 0
        self._join(room)

    def _join(self, room: Room) -> None:
        assert room.joining is not None
        part = Join(room.id, room.topic.cid, room.below())
        self._office.say(room.joining.peer, part)
        room.join_sent_us = self._office.now
        # Who is asked for the fourth time is there, and busy.
        again = max(0, room.tries - self._office.settings.tries_max)
        self._office.set_timer(("join", room.id), self._office.patience_us << again)

    def on_join_timer(self, room: Room) -> None:
        """Whoever was asked to be the parent has not answered."""
        if room.joining is None:
            return
        room.tries += 1
        tries_max = self._office.settings.tries_max
        is_there = self._office.has_heard_from(room.joining.peer, room.join_sent_us)
        if room.tries <= tries_max + (BUSY_TRIES_MAX if is_there else 0):
            self._join(room)
            return
        self.avoid(room, room.joining.peer)
        room.joining = None
        self.attach(room)

    def avoid(self, room: Room, peer: Peer) -> None:
        """Do not join somebody for some time."""
        now = self._office.now
        room.avoided = {p: until for p, until in room.avoided.items() if until > now}
        room.avoided[peer] = now + self._office.settings.avoid_us

    def hear_late(self, room: Room, peer: Peer) -> None:
        """Somebody answers who was given up: it is there, and answers take longer than thought."""
        if room.avoided.pop(peer, None) is not None:
            asked_us = max(room.join_sent_us, room.beat_sent_us)
            self._office.heard_answer(self._office.now - asked_us)

    def on_attach_timer(self, room: Room) -> None:
        """The node was alone when it looked for a place, or was sent to somebody who is gone."""
        self.attach(room)

    # --- answers ---

    def on_welcome(self, contact: Contact, part: Welcome) -> None:
        """Somebody is the node's parent now."""
        room = self._office.rooms.get(part.room)
        if room is None:
            self._office.say(contact.peer, Leave(part.room))
            return
        is_parent = room.parent is not None and room.parent.peer == contact.peer
        is_asked = room.joining is not None and room.joining.peer == contact.peer
        if not (is_parent or is_asked):
            self.hear_late(room, contact.peer)
            return
        if contact.key ^ room.target >= room.own_distance:
            return
        if is_asked:
            self._office.heard_answer(self._office.now - room.join_sent_us)
            room.joining = None
            self._office.cancel_timer(("join", room.id))
        if room.parent is not None and not is_parent:
            self._office.say(room.parent.peer, Leave(room.id))
        room.parent, room.is_root = contact, False
        room.silent_beats = room.beat_sent_us = room.redirects = 0
        self._office.finding.hear_of_version(room, part.topic, contact.peer)
        self._office.catching_up.on_place(room, part.heads, contact.peer)
        self._on_attached(room, part.topic)

    def on_wait(self, peer: Peer, part: Wait) -> None:
        """Whoever was asked to be the parent looks for its own place first."""
        room = self._office.rooms.get(part.room)
        if room is not None and room.joining is not None and room.joining.peer == peer:
            room.tries = 0
            self._office.set_timer(("join", room.id), 2 * self._office.settings.join_us)

    def on_elsewhere(self, contact: Contact, part: Elsewhere) -> None:
        """The node is to join somebody else."""
        room = self._office.rooms.get(part.room)
        if room is None:
            return
        is_parent = room.parent is not None and room.parent.peer == contact.peer
        is_asked = room.joining is not None and room.joining.peer == contact.peer
        if not (is_parent or is_asked):
            return
        if is_asked:
            room.joining = None
            self._office.cancel_timer(("join", room.id))
        go_to = part.go_to
        room.redirects += 1
        if go_to is not None and self._is_avoided(room, go_to) and room.redirects <= REDIRECTS_MAX:
            # It does not know yet that this one is gone.
            self._office.set_timer(("attach", room.id), self._office.patience_us)
            return
        if go_to is None or not self._is_parent_for(room, go_to) or room.redirects > REDIRECTS_MAX:
            room.redirects = 0
            if is_parent:
                room.parent = None
            if go_to is None:
                self.avoid(room, contact.peer)
            if not room.is_attached and not room.is_seeking:
                self._seek(room)
        elif room.joining is None:
            self._ask(room, go_to)

    def _be_root(self, room: Room) -> None:
        room.is_root = True
        room.parent = room.joining = None
        room.proved_us = self._office.now
        self._office.catching_up.on_place(room, (), None)
        self._office.keeping.invite(room)
        self._office.look_up(room.topic.author, partial(self._show, room))
        self._on_attached(room, None)

    def _show(self, room: Room, found: Found) -> None:
        """Let those who may have been root meanwhile know that there is one who is closer."""
        if self._office.rooms.get(room.id) is not room or not room.is_root:
            return
        closer = [c for c in found.closest if self._is_parent_for(room, c)]
        if closer and room.joining is None:
            self._ask(room, closer[0])
        elif not closer:
            beat = self._office.beating.beat_of(room, wants_answer=False)
            for contact in found.closest[1 : 1 + CLOSEST_LOOKED_AT]:
                self._office.say(contact.peer, beat)

    def _on_attached(self, room: Room, newest: Cid | None) -> None:
        self.confirm(room)
        self._office.describing.on_attached(room, newest)
        waiting, room.waiting = room.waiting, {}
        for contact, below in waiting.values():
            self._admit(room, contact, below)

    def confirm(self, room: Room) -> None:
        """Tell the application that its subscriptions are in force, if they are."""
        if not room.is_attached:
            return
        for number, subscription in room.subscriptions.items():
            if number not in room.in_force:
                room.in_force[number] = None
                self._office.deliver(Subscribed(subscription))

    # --- being asked ---

    def on_join(self, contact: Contact, part: Join) -> None:
        """Somebody wants to be below this node."""
        room = self._office.rooms.get(part.room)
        if room is None:
            self._office.say(contact.peer, Wait(part.room))
            then = partial(self._on_join_found, contact, part)
            self._office.finding.room(part.topic, then, contact.peer)
            return
        self._office.finding.hear_of_version(room, part.topic, contact.peer)
        self.admit_or_send_on(room, contact, part.below)

    def _on_join_found(self, contact: Contact, part: Join, room: Room | None) -> None:
        if room is None or room.id != part.room:
            self._office.say(contact.peer, Elsewhere(part.room, None))
        else:
            self.admit_or_send_on(room, contact, part.below)

    def admit_or_send_on(self, room: Room, contact: Contact, below: int) -> None:
        """Have somebody come below this node, or go to somebody else."""
        if contact.key ^ room.target <= room.own_distance:
            self._office.say(contact.peer, Elsewhere(room.id, None))
            self.meet_closer(room, contact)
        elif room.is_attached:
            self._admit(room, contact, below)
        elif len(room.waiting) < self._office.settings.waiting_count_max:
            room.waiting[contact.peer] = (contact, below)
            self._office.say(contact.peer, Wait(room.id))
            self.attach(room)
        else:
            self._office.refused["too many wait"] += 1

    def meet_closer(self, room: Room, contact: Contact) -> None:
        """A root has heard of somebody who is closer to the author than itself."""
        if room.is_root and room.joining is None and self._is_parent_for(room, contact):
            self._ask(room, contact)

    def _admit(self, room: Room, contact: Contact, below: int) -> None:
        distance = contact.key ^ room.target
        child = room.children.get(contact.peer)
        if child is not None:
            child.heard_us, child.is_moving = self._office.now, False
            self._welcome(room, contact)
            return
        staying = [child for child in room.children.values() if not child.is_moving]
        if len(staying) >= self._office.settings.fan_out_max:
            # Who has not been heard of in time may be gone, and is no place to send anybody to.
            heard_us = self._office.now - self._office.settings.beat_us * 3 // 2
            closer = [c for c in staying if c.distance < distance and c.heard_us >= heard_us]
            if closer:
                chosen = min(closer, key=lambda child: child.below)
                chosen.below += 1 + below
                self._office.say(contact.peer, Elsewhere(room.id, chosen.contact))
                return
            if len(room.children) >= 2 * self._office.settings.fan_out_max:
                self._office.say(contact.peer, Wait(room.id))  # Until some have moved.
                return
            # It is closer than all of them, so it takes the place of the farthest.
            farthest = max(staying, key=lambda child: child.distance)
            farthest.is_moving = True
            below += 1 + farthest.below
            self._office.say(farthest.contact.peer, Elsewhere(room.id, contact))
        self._add(room, contact, distance, below)
        self._welcome(room, contact)

    def _add(self, room: Room, contact: Contact, distance: Key, below: int) -> None:
        room.children[contact.peer] = Child(contact, distance, below, self._office.now)

    def _welcome(self, room: Room, contact: Contact) -> None:
        heads = room.heads(self._office.settings.names_max)
        self._office.say(contact.peer, Welcome(room.id, room.topic.cid, heads))

    def on_leave(self, peer: Peer, part: Leave) -> None:
        """A child is none any more."""
        room = self._office.rooms.get(part.room)
        if room is not None:
            room.children.pop(peer, None)
            room.waiting.pop(peer, None)
            self.leave_if_unwanted(room)

    # --- staying ---

    def look_for_closer(self, room: Room) -> None:
        """See whether somebody has come who is to be root in this node's place."""
        closer = self._closer_known(room)
        if closer is not None and room.joining is None:
            self._ask(room, closer)
        elif (
            self._office.now - room.proved_us >= self._office.settings.proof_us
            and not room.is_seeking
        ):
            self._seek(room)

    # --- leaving ---

    def leave_if_unwanted(self, room: Room) -> bool:
        """Leave a tree that the node is in for nobody; whether it has left.

        While anybody is below it the node stays and passes on, so that nobody is cut off.
        """
        if room.is_wanted(self._office.now) or room.waiting or room.children:
            return False
        if room.parent is not None:
            self._office.say(room.parent.peer, Leave(room.id))
        self._office.forget(room)
        self._office.storing.forget_room(room)
        return True
