"""What all parts of a node's Pulsarcast share: its topics, the time, and what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.queries import Found, Got, Put
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.publication import Signing
from smartpubsub.protocols.pulsarcast.parts import Parcel, Part
from smartpubsub.protocols.pulsarcast.refusals import RefusalError
from smartpubsub.protocols.pulsarcast.room import Room
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings
from smartpubsub.protocols.pulsarcast.topics import Topic
from smartpubsub.seam import CancelTimer, Deliver, Effect, Peer, Send, SetTimer

if TYPE_CHECKING:
    from smartpubsub.protocols.pulsarcast.backfilling import Backfill
    from smartpubsub.protocols.pulsarcast.beating import Beating
    from smartpubsub.protocols.pulsarcast.catching_up import CatchingUp
    from smartpubsub.protocols.pulsarcast.describing import Describing
    from smartpubsub.protocols.pulsarcast.finding import Finding
    from smartpubsub.protocols.pulsarcast.importing import Importing
    from smartpubsub.protocols.pulsarcast.joining import Joining
    from smartpubsub.protocols.pulsarcast.keeping import Keepers
    from smartpubsub.protocols.pulsarcast.linking import Linking
    from smartpubsub.protocols.pulsarcast.publishing import Publishing
    from smartpubsub.protocols.pulsarcast.reading import Reading
    from smartpubsub.protocols.pulsarcast.requesting import Requesting
    from smartpubsub.protocols.pulsarcast.spreading import Spreading
    from smartpubsub.protocols.pulsarcast.storing import Storing
    from smartpubsub.protocols.pulsarcast.subscribing import Subscribing

NAME = "pulsarcast"

_UP_SHARE, _DOWN_SHARE = 2, 8
"""What part of an average is the newest: who is late now may be later next time."""
_HEARD_COUNT_MAX = 4_096


class Office:
    """Where a node's work on Pulsarcast is done, one event at a time, at several desks."""

    describing: Describing
    finding: Finding
    joining: Joining
    beating: Beating
    spreading: Spreading
    catching_up: CatchingUp
    backfilling: Backfill
    keeping: Keepers
    linking: Linking
    publishing: Publishing
    requesting: Requesting
    storing: Storing
    subscribing: Subscribing
    reading: Reading
    importing: Importing

    def __init__(
        self, settings: PulsarSettings, kademlia: Kademlia, signing: Signing, rng: Random
    ) -> None:
        self.settings = settings
        self.kademlia = kademlia
        self.signing = signing
        self.rng = rng
        self.own = kademlia.own
        self.incarnation = 0
        self.now = 0
        self.is_ready = False
        """Whether the node has its place in the overlay."""
        self.has_company = False
        """Whether anybody else is known to have been there."""
        self.rooms: dict[Cid, Room] = {}
        self.room_of: dict[Cid, Room] = {}
        """By every version of its topic, and by the meta topic."""
        self.refused: Counter[str] = Counter()
        """What was refused, by reason."""
        self.lost = 0
        """Events that were linked to and that nobody had."""
        self.answer_us = settings.grace_us // 2
        """How long neighbours take to answer, on average."""
        self._heard_us: dict[Peer, int] = {}
        """When others were last heard from, the latest last."""
        self._effects: list[Effect] = []
        self._queues: dict[Peer, list[Part]] = {}
        self._lookups: dict[int, Callable[[object], None]] = {}
        self._last_number = 0

    # --- what is done ---

    def say(self, peer: Peer, part: Part) -> None:
        """Say something to a peer, together with what else is said to it in this moment."""
        self._queues.setdefault(peer, []).append(part)

    def send(self, peer: Peer, parcel: Parcel) -> None:
        """Send what is the same for several peers."""
        self._effects.append(Send(peer, parcel))

    def deliver(self, item: object) -> None:
        """Tell the application something."""
        self._effects.append(Deliver(item))

    def set_timer(self, name: tuple[object, ...], after_us: int) -> None:
        """Have a timer fire after some time."""
        self._effects.append(SetTimer((NAME, *name), self.now + after_us))

    def cancel_timer(self, name: tuple[object, ...]) -> None:
        """Have a timer not fire."""
        self._effects.append(CancelTimer((NAME, *name)))

    def do(self, effect: Effect) -> None:
        """Have any other effect carried out."""
        self._effects.append(effect)

    def taken(self) -> list[Effect]:
        """All that is to be done now."""
        if self._queues:
            for peer, parts in self._queues.items():
                self._effects.append(Send(peer, Parcel(tuple(parts))))
            self._queues = {}
        effects, self._effects = self._effects, []
        return effects

    def new_number(self) -> int:
        """A number that no question of this node has had."""
        self._last_number += 1
        return self._last_number

    def spread_out(self, interval_us: int) -> int:
        """An interval that differs a little from node to node, so that they do not act as one."""
        return interval_us * self.rng.randint(80, 120) // 100

    def refuse(self, error: RefusalError) -> None:
        """Count something that is not taken."""
        self.refused[error.reason.value] += 1

    def hear_from(self, peer: Peer) -> None:
        """Somebody has said something, whatever it is."""
        self._heard_us.pop(peer, None)
        self._heard_us[peer] = self.now
        if len(self._heard_us) > _HEARD_COUNT_MAX:
            del self._heard_us[next(iter(self._heard_us))]

    def has_heard_from(self, peer: Peer, since_us: int) -> bool:
        """Whether somebody was there after a time."""
        return self._heard_us.get(peer, since_us) > since_us

    def heard_answer(self, after_us: int) -> None:
        """A neighbour has answered after some time."""
        after_us = min(after_us, self.settings.avoid_us)
        share = _UP_SHARE if after_us > self.answer_us else _DOWN_SHARE
        self.answer_us += (after_us - self.answer_us) // share

    @property
    def patience_us(self) -> int:
        """How long a neighbour's answer is waited for before it is asked again."""
        return max(self.settings.patience_us, 5 * self.answer_us // 2)

    @property
    def grace_us(self) -> int:
        """How long what is missing may still be on its way."""
        return max(self.settings.grace_us, 3 * self.answer_us)

    # --- the overlay ---

    def look_up(self, name: bytes, then: Callable[[Found], None], count: int = 0) -> None:
        """Find who is closest to a name; where few are wanted fewer have to be asked."""
        self._start(self.kademlia.find_closest(name, self.now, count), then)

    def get(self, name: bytes, then: Callable[[Got], None]) -> None:
        """Find a value in the overlay."""
        self._start(self.kademlia.get(name, self.now), then)

    def put(self, name: bytes, value: bytes, then: Callable[[Put], None]) -> None:
        """Have a value held by the nodes closest to its name."""
        self._start(self.kademlia.put(name, value, self.now), then)

    def _start(self, started: tuple[int, list[Effect]], then: Callable[..., None]) -> None:
        number, effects = started
        self._lookups[number] = then
        for effect in effects:
            if isinstance(effect, Deliver):  # There was nobody to ask, or no need to.
                self.on_told(effect.item)
            else:
                self._effects.append(effect)

    def on_told(self, item: object) -> None:
        """The overlay has found something, maybe for somebody else on it."""
        if isinstance(item, Found | Got | Put):
            then = self._lookups.pop(item.number, None)
            if then is not None:
                then(item)

    # --- topics ---

    def index(self, room: Room) -> None:
        """Have a room found by all versions of its topic."""
        self.rooms[room.id] = room
        for cid in room.versions:
            self.room_of[cid] = room

    def forget(self, room: Room) -> None:
        """Be no member any more."""
        self.rooms.pop(room.id, None)
        for cid in room.versions:
            self.room_of.pop(cid, None)

    def known_topic(self, cid: Cid) -> Topic | None:
        """A descriptor that this node has because it is a member."""
        room = self.room_of.get(cid)
        return None if room is None else room.versions[cid]
