"""Neighbours in a tree tell each other that they are there and what they have."""

from __future__ import annotations

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.pulsarcast.office import Office
from smartpubsub.protocols.pulsarcast.parts import Beat, Elsewhere
from smartpubsub.protocols.pulsarcast.room import Room
from smartpubsub.seam import Peer

BEATS_UNHEARD_MAX = 4
"""A child that is silent for so many beats is forgotten; if it is there it will join again."""
BEATS_LATE_MAX = 12
"""So many if it is there, and only what it says of the topic is late."""


class Beating:
    """Notices who is there and who is not."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def beat(self, room: Room) -> None:
        """Tell the parent what the node has, and see whether the parent is still there."""
        settings, now = self._office.settings, self._office.now
        unheard_us = now - BEATS_UNHEARD_MAX * settings.beat_us
        late_us = now - BEATS_LATE_MAX * settings.beat_us
        for peer, child in list(room.children.items()):
            is_there = self._office.has_heard_from(peer, unheard_us) and child.heard_us >= late_us
            if child.heard_us < unheard_us and not is_there:
                del room.children[peer]
        if self._office.joining.leave_if_unwanted(room):
            return
        if not room.silent_beats:
            self._probe(room)
        if room.is_root and room.topic.author != self._office.own.peer:
            self._office.joining.look_for_closer(room)
        if room.is_root and now - room.proved_us >= settings.proof_us:
            room.proved_us = now
            self._office.keeping.invite(room)
        self._office.joining.attach(room)

    def _probe(self, room: Room) -> None:
        """Have the parent answer; if it has not for some times, do without it."""
        if room.parent is None:
            return
        office = self._office
        room.silent_beats += 1
        if room.silent_beats > office.settings.tries_max + 1:
            office.joining.avoid(room, room.parent.peer)
            room.parent, room.silent_beats = None, 0
            return
        # Of the last try, also if what was answered is one before: so it is never measured longer
        # than it took, or waiting longer would make answers seem to take longer.
        room.beat_sent_us = office.now
        office.say(room.parent.peer, self.beat_of(room, wants_answer=True))
        office.set_timer(("parent", room.id), office.patience_us)

    def on_parent_timer(self, room: Room) -> None:
        """The parent should have answered."""
        if not room.silent_beats or room.parent is None:
            return
        if self._office.has_heard_from(room.parent.peer, room.beat_sent_us):
            # It is there, and its answer comes when it has got round to it. Where all are busy, to
            # ask again would only give them more to do.
            room.silent_beats = 0
        else:
            self._probe(room)
            self._office.joining.attach(room)

    def on_disconnected(self, peer: Peer) -> None:
        """A connection is lost, or could not be made; whoever it was to may be gone."""
        for room in list(self._office.rooms.values()):
            if room.parent is not None and room.parent.peer == peer and not room.silent_beats:
                self._probe(room)
            elif room.joining is not None and room.joining.peer == peer:
                self._office.joining.on_join_timer(room)

    def beat_of(self, room: Room, *, wants_answer: bool) -> Beat:
        """What a neighbour is told."""
        heads = room.heads(self._office.settings.names_max)
        return Beat(room.id, room.topic.cid, heads, room.below(), wants_answer)

    def tell_news(self, room: Room) -> None:
        """Tell all neighbours what the node has, since it came otherwise than through the tree."""
        beat = self.beat_of(room, wants_answer=False)
        for peer in room.neighbours():
            self._office.say(peer, beat)

    def on_beat(self, contact: Contact, part: Beat) -> None:
        """A neighbour tells what it has."""
        room = self._office.rooms.get(part.room)
        if room is None:
            if part.wants_answer:  # It takes this node for its parent.
                self._office.say(contact.peer, Elsewhere(part.room, None))
            return
        self._office.finding.hear_of_version(room, part.topic, contact.peer)
        child = room.children.get(contact.peer)
        if room.parent is not None and room.parent.peer == contact.peer:
            if room.beat_sent_us and not part.wants_answer:
                self._office.heard_answer(self._office.now - room.beat_sent_us)
                self._office.cancel_timer(("parent", room.id))
                room.beat_sent_us = 0
            room.silent_beats = 0
        elif child is not None:
            child.heard_us, child.below = self._office.now, part.below
            if part.wants_answer:
                self._office.say(contact.peer, self.beat_of(room, wants_answer=False))
        elif part.wants_answer:
            self._office.joining.admit_or_send_on(room, contact, part.below)
        else:
            room.avoided.pop(contact.peer, None)  # It is there.
            self._office.joining.meet_closer(room, contact)
        self._office.catching_up.compare(room, part.heads, contact.peer)
