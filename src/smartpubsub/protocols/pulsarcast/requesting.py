"""Requests to publish: one author's are published in the order in which it made them.

The publisher answers when an event is stored. Until then the author asks again, and says each time
which is the first of its requests that has no answer, so that the publisher knows what to wait for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pubsub import Published, Refused
from smartpubsub.protocols.pulsarcast.checking import check_draft
from smartpubsub.protocols.pulsarcast.drafts import draft_block, read_draft
from smartpubsub.protocols.pulsarcast.events import Draft
from smartpubsub.protocols.pulsarcast.office import Office
from smartpubsub.protocols.pulsarcast.parts import Granted, Request
from smartpubsub.protocols.pulsarcast.refusals import RefusalError
from smartpubsub.protocols.pulsarcast.room import Room
from smartpubsub.protocols.pulsarcast.topics import Linking
from smartpubsub.seam import Peer

RESENT_AT_ONCE_MAX = 50
STAY_US = 10 * MINUTE
"""How long a node that has asked stays in a topic's tree if it has not subscribed."""
AUTHORS_MAX = 10_000


@dataclass(slots=True, eq=False)
class _Line:
    """What a node has asked for in one topic, by turn."""

    open: dict[int, Draft] = field(default_factory=dict)
    last_turn: int = 0
    asked: int = 0
    """How often in a row nothing was heard."""
    has_progress: bool = False
    """Whether anything was answered since the timer was set."""
    is_set: bool = False


@dataclass(slots=True, eq=False)
class _Desk:
    """What one author has asked this node for in one topic."""

    next_turn: int = 1
    early: dict[int, Draft] = field(default_factory=dict)
    answered: dict[int, None] = field(default_factory=dict)


class Requesting:
    """Asks others to publish, and publishes for others."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._lines: dict[Cid, _Line] = {}
        self._desks: dict[tuple[Cid, Peer, int], _Desk] = {}

    # --- asking ---

    def request(self, room: Room, draft: Draft) -> None:
        """Have an event published by somebody who may."""
        line = self._lines.setdefault(room.id, _Line())
        if len(line.open) >= self._office.settings.pending_count_max:
            self._office.deliver(Refused(draft.id, "too many requests wait; try again later"))
            return
        self._office.storing.store_request(draft)
        self._request(room, line, draft)

    def _request(self, room: Room, line: _Line, draft: Draft) -> None:
        line.last_turn += 1
        line.open[line.last_turn] = draft
        self._send(room, line, line.last_turn)
        self._set_timer(room, line)

    def resume(self, drafts: Iterable[Draft]) -> None:
        """Ask again for what had no answer before a restart, in the same order."""
        for draft in drafts:
            room = self._office.room_of.get(draft.topic)
            if room is not None:
                self._request(room, self._lines.setdefault(room.id, _Line()), draft)

    def _send(self, room: Room, line: _Line, turn: int) -> None:
        first = next(iter(line.open))
        room.wanted_until_us = self._office.now + STAY_US
        part = Request(room.id, self._office.incarnation, turn, first, draft_block(line.open[turn]))
        self._office.say(self._publisher(room, line), part)

    def _publisher(self, room: Room, line: _Line) -> Peer:
        """Whom to ask: the author if it may publish, and the others in turn if it is silent."""
        allowed = room.topic.rules.publishers or (room.topic.author,)
        first = room.topic.author if room.topic.author in allowed else allowed[0]
        others = [peer for peer in allowed if peer not in (first, self._office.own.peer)]
        return [first, *others][line.asked // 3 % (1 + len(others))]

    def _set_timer(self, room: Room, line: _Line) -> None:
        if not line.is_set:
            line.is_set = True
            settings = self._office.settings
            wait_us = max(settings.request_us, 6 * self._office.answer_us)
            wait_us = min(wait_us << min(line.asked, 6), settings.request_us_max)
            self._office.set_timer(("request", room.id), wait_us)

    def on_timer(self, room: Room) -> None:
        """Ask again for what has no answer."""
        line = self._lines.get(room.id)
        if line is None:
            return
        line.is_set = False
        if line.open and line.has_progress:
            # The publisher takes them in turn, and is busy with those before.
            line.has_progress = False
            self._set_timer(room, line)
        elif line.open:
            line.asked += 1
            for turn in list(line.open)[:RESENT_AT_ONCE_MAX]:
                self._send(room, line, turn)
            self._set_timer(room, line)

    def on_granted(self, part: Granted) -> None:
        """A publisher has answered."""
        line = self._lines.get(part.room)
        if line is None or part.start != self._office.incarnation:
            return
        draft = line.open.pop(part.turn, None)
        if draft is None:
            return
        line.asked, line.has_progress = 0, True
        self._office.storing.forget_request(draft)
        refusal = part.refusal
        self._office.deliver(Refused(draft.id, refusal) if refusal else Published(draft.id))

    # --- being asked ---

    def on_request(self, peer: Peer, part: Request) -> None:
        """Somebody asks this node to publish."""
        office = self._office
        room = office.rooms.get(part.room)
        if room is None or not room.is_attached:
            return  # It will ask again.
        try:
            draft = read_draft(part.draft)
            check_draft(draft, office.signing)
        except RefusalError as error:
            office.refuse(error)
            office.say(peer, Granted(part.room, part.start, part.turn, error.reason.value))
            return
        if draft.id.publisher != peer or not self._may(room, draft):
            office.refused["unauthorised"] += 1
            office.say(peer, Granted(part.room, part.start, part.turn, "unauthorised"))
            return
        parents = draft.parents or ()
        office.linking.when_here(
            room, parents, partial(self._take, room, peer, part, draft), lambda: None
        )

    def _take(self, room: Room, peer: Peer, part: Request, draft: Draft) -> None:
        """Publish what was asked for, when all that was asked for before it is published."""
        office = self._office
        key = (room.id, peer, part.start)
        desk = self._desks.get(key)
        if desk is None:
            if len(self._desks) >= AUTHORS_MAX:
                self._desks.pop(next(iter(self._desks)))
            desk = self._desks[key] = _Desk(next_turn=part.first_turn)
        desk.next_turn = max(desk.next_turn, part.first_turn)
        if part.turn < desk.next_turn:
            self._answer_again(room, peer, part, draft)
        elif len(desk.early) < office.settings.request_count_max:
            desk.early[part.turn] = draft
        while desk.next_turn in desk.early:
            turn = desk.next_turn
            desk.next_turn += 1
            self._publish(room, peer, part.start, turn, desk.early.pop(turn))

    def _may(self, room: Room, draft: Draft) -> bool:
        topic = room.versions.get(draft.topic)
        is_custom = room.topic.rules.linking is Linking.CUSTOM
        if is_custom != (draft.parents is not None):
            return False
        own = self._office.own.peer
        is_allowed = room.topic.rules.allow(draft.id.publisher, own)
        return topic is not None and topic is not room.meta and is_allowed

    def _answer_again(self, room: Room, peer: Peer, part: Request, draft: Draft) -> None:
        event = room.log.with_id(draft.id)
        if event is not None and event.cid not in room.keeping:
            self._office.say(peer, Granted(room.id, part.start, part.turn, ""))
        elif event is None:
            self._publish(room, peer, part.start, part.turn, draft)

    def _publish(self, room: Room, peer: Peer, start: int, turn: int, draft: Draft) -> None:
        office = self._office
        granted = Granted(room.id, start, turn, "")
        known = room.log.with_id(draft.id)
        if known is None:
            then = partial(office.say, peer, granted)
            office.publishing.place(room, draft, then, draft.parents)
        elif known.cid not in room.keeping:
            office.say(peer, granted)
