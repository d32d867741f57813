"""Events: each is checked, kept, told to the application, and passed on through the tree."""

from __future__ import annotations

from smartpubsub.protocols.pubsub import Delivery
from smartpubsub.protocols.pulsarcast.checking import check_event
from smartpubsub.protocols.pulsarcast.events import TopicEvent, read_event
from smartpubsub.protocols.pulsarcast.office import Office
from smartpubsub.protocols.pulsarcast.parts import Leave, Parcel, Spread
from smartpubsub.protocols.pulsarcast.refusals import Reason, RefusalError
from smartpubsub.protocols.pulsarcast.room import Room
from smartpubsub.seam import Peer

FETCHED_HOPS = 1
"""What was fetched has come over one link from whoever had it."""


class Spreading:
    """What happens to an event when it comes."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def on_spread(self, peer: Peer, part: Spread) -> None:
        """An event comes through the tree."""
        office = self._office
        block, hops = part
        try:
            event = read_event(block)
        except RefusalError as error:
            office.refuse(error)
            return
        room = office.room_of.get(event.topic)
        if room is None:
            self._on_unknown_version(peer, event)
            return
        is_parent = room.parent is not None and room.parent.peer == peer
        if not is_parent and peer not in room.children:
            office.say(peer, Leave(room.id))  # It takes this node for its child.
        if event.cid in room.log.events:
            if event.cid in room.unspread:
                del room.unspread[event.cid]
                self._pass_on(room, block, hops, peer)
            else:
                office.refused["repeated"] += 1
        elif self.take(room, event, hops, peer):
            self._pass_on(room, block, hops, peer)

    def _on_unknown_version(self, peer: Peer, event: TopicEvent) -> None:
        """An event of a version that is not known yet, or of a topic that is none of ours."""
        for room in self._office.rooms.values():
            if peer in room.children or (room.parent is not None and room.parent.peer == peer):
                self._office.finding.hear_of_version(room, event.topic, peer)
                return
        self._office.refused["unwanted"] += 1

    def publish(self, room: Room, event: TopicEvent) -> None:
        """Send an event of this node's own on its way."""
        if self.take(room, event, 0, None):
            self._pass_on(room, event.block, 0, None)

    def _pass_on(self, room: Room, block: bytes, hops: int, source: Peer | None) -> None:
        parcel = Parcel((Spread(block, hops + 1),))
        parent = room.parent
        if parent is not None and parent.peer != source:
            self._office.send(parent.peer, parcel)
        for peer in room.children:
            if peer != source:
                self._office.send(peer, parcel)

    def take(
        self,
        room: Room,
        event: TopicEvent,
        hops: int,
        source: Peer | None,
        *,
        is_linked: bool = False,
        is_told: bool = True,
    ) -> bool:
        """Take an event that is not here yet; whether it was good."""
        office = self._office
        topic = room.versions[event.topic]
        # What something that was taken links to was allowed when it was published.
        is_bound = not is_linked and topic is not room.topic and topic is not room.meta
        newest = room.topic if is_bound else None
        try:
            check_event(
                event, topic, newest, office.signing, office.now + office.settings.skew_us_max
            )
            room.log.check(event)
            if not office.storing.has_room_for(event):
                raise RefusalError(Reason.NO_ROOM, "what is pinned here leaves no room")
        except RefusalError as error:
            office.refuse(error)
            return False
        twin = room.log.with_id(event.id)
        whole = room.log.add(event)
        office.storing.store_event(event)
        if room.unknown:
            room.unknown.pop(event.cid, None)
        if room.log.missing:
            office.catching_up.note_missing(room, event, source)
        if event.draft.is_announcement and source is not None:
            office.finding.hear_of_version(room, event.draft.payload, source)
        if twin is not None:
            office.refused[Reason.REPLAYED.value] += 1
        # In a topic with one order nothing is told before all that it links to.
        ready = whole if room.topic.rules.is_chained else (event,)
        for one in ready:
            if one is not event or (is_told and twin is None):
                self._deliver(room, one, hops)
        if room.log.is_too_large(office.settings.retention):
            office.storing.let_go(room)
        return True

    def _deliver(self, room: Room, event: TopicEvent, hops: int) -> None:
        numbers = room.meta_numbers if event.draft.is_announcement else room.topic_numbers
        if numbers and event.draft.created_us >= room.log.floor_us:
            self._office.subscribing.tell(event, numbers)
            self._office.deliver(Delivery(event.publication, numbers, hops))

    def go_on_without(self, room: Room, cid: bytes) -> None:
        """Wait no longer for an event that nobody has, or that came before this node's time."""
        whole = room.log.give_up(cid)
        if room.topic.rules.is_chained:
            for event in whole:
                self._deliver(room, event, FETCHED_HOPS)
