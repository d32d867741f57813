"""What a topic is now, and what it was: its versions, found by following each to the one before."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.office import Office
from smartpubsub.protocols.pulsarcast.room import Room
from smartpubsub.protocols.pulsarcast.told import TopicDescribed
from smartpubsub.protocols.pulsarcast.topics import Topic

STAY_US = 10 * MINUTE
"""How long a node that was asked about a topic stays in its tree."""
PATIENCE_US = 20 * SECOND
"""How long a place in the tree is waited for before what is known has to do."""


class Describing:
    """Knows the newest version of topics, and those before it."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._waiting: dict[Cid, list[Callable[[], None]]] = {}
        """What is to be done in each room once the newest version of its topic is known."""

    # --- the newest ---

    def when_settled(self, room: Room, then: Callable[[], None]) -> None:
        """Do something when the node knows what the newest version of a topic is.

        Whoever is in the tree hears of every version; who is not yet is told when it comes in.
        """
        if room.is_attached:
            then()
            return
        office = self._office
        if room.id not in self._waiting:
            office.set_timer(("describe", room.id), PATIENCE_US)
        self._waiting.setdefault(room.id, []).append(then)
        room.wanted_until_us = max(room.wanted_until_us, office.now + STAY_US)
        office.joining.attach(room)

    def on_attached(self, room: Room, newest: Cid | None) -> None:
        """The node has its place, and its parent this version; as root it has no parent."""
        if room.id not in self._waiting and not room.drafts:
            return
        if newest is None or newest in room.versions:
            self.on_timer(room)
        else:  # It is being found, and learnt before this is called.
            self._office.finding.find(newest, lambda _: self.on_timer(room))

    def on_timer(self, room: Room) -> None:
        """Go on with what is known."""
        waiting = self._waiting.pop(room.id, [])
        if waiting:
            self._office.cancel_timer(("describe", room.id))
        for then in waiting:
            then()
        if room.is_attached:
            self._office.publishing.on_settled(room)

    # --- all of them ---

    def describe(self, topic: Cid, number: int) -> None:
        """Find the versions of a topic; `TopicDescribed` comes, with the number."""
        self._office.finding.room(topic, partial(self._on_room, number))

    def _on_room(self, number: int, room: Room | None) -> None:
        if room is None:
            self._office.deliver(TopicDescribed(number, ()))
        else:
            self.when_settled(room, lambda: self._go_back(number, room, [room.topic]))

    def _go_back(self, number: int, room: Room, found: list[Topic]) -> None:
        office = self._office
        while (before := found[-1].parent) is not None:
            known = room.versions.get(before)
            if known is None:
                peer = None if room.parent is None else room.parent.peer
                then = partial(self._on_found, number, room, found)
                office.finding.find(before, then, peer)
                return
            found.append(known)
        office.deliver(TopicDescribed(number, tuple(found)))

    def _on_found(self, number: int, room: Room, found: list[Topic], topic: Topic | None) -> None:
        if topic is None or not self._office.finding.learn(room, topic):
            self._office.deliver(TopicDescribed(number, tuple(found)))
        else:
            self._go_back(number, room, found)
