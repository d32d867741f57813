"""A node's core that gets arbitrary inputs at arbitrary times."""

from __future__ import annotations

import heapq
from random import Random
from typing import Any

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Message
from smartpubsub.kademlia.protobuf import WireError
from smartpubsub.kademlia.settings import Settings
from smartpubsub.protocols.codecs import Codec
from smartpubsub.protocols.fastdelivery.messages import Packet
from smartpubsub.protocols.fastdelivery.senders import FAST_RULES
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.pulsarcast.messages import Parcel
from smartpubsub.protocols.pulsarcast.senders import PULSAR_RULES
from smartpubsub.protocols.registry import PROTOCOLS, codecs_of
from smartpubsub.protocols.scoutsubs.messages import Bundle
from smartpubsub.protocols.scoutsubs.senders import SCOUT_RULES
from smartpubsub.protocols.spec import ProtocolOptions
from smartpubsub.seam import (
    Answer,
    Answered,
    Ask,
    Asked,
    CancelTimer,
    Connected,
    Departed,
    Disconnected,
    Effect,
    Event,
    Load,
    Loaded,
    Peer,
    Received,
    Send,
    SetTimer,
    Started,
    Store,
    TimerFired,
    Unknown,
)
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.fuzz.making import PREDICATES, Maker

PEERS = [b"\x00\x24\x08\x01\x12\x20" + bytes([number]) * 32 for number in range(8)]
RULES: dict[type, Any] = {Bundle: SCOUT_RULES, Parcel: PULSAR_RULES, Packet: FAST_RULES}
STRANGERS = 0.3
"""How many messages come from any peer, whatever its role."""
INPUTS = 300
"""The inputs of one life of a core."""
STEPS_US = (0, 1, 1_000, 50_000, 1_000_000, 30_000_000, 3_600_000_000)
START_US = 1_790_000_000_000_000


class FuzzedCore:
    """A core, its timers, its storage, and the invariants of what it sends."""

    def __init__(self, protocol: str, rng: Random) -> None:
        self._protocol = protocol
        self._rng = rng
        self._own = Contact.of(rng.randbytes(38), (b"\x04\x7f\x00\x00\x01\x06\x0f\xa1",))
        self._maker = Maker(rng, [self._own.peer, *PEERS])
        self._codecs = {codec.message: codec for codec in codecs_of(protocol)}
        self._now = START_US
        self._incarnation = 1
        self._storage: dict[bytes, bytes] = {}
        self._asked: list[tuple[Peer, int]] = []
        self._start()

    def run(self) -> None:
        """Feed the core."""
        for _ in range(INPUTS):
            self._now += self._rng.choice(STEPS_US) if self._rng.random() < 0.3 else 1_000
            self._one_input()
            for core in self._above:
                core.check()

    def _start(self) -> None:
        spec, options = PROTOCOLS.specs[self._protocol], ProtocolOptions()
        kademlia = Kademlia(self._own, Settings(), self._rng)
        signing = StandInSigning(self._own.peer)
        pubsub = spec.core(options, kademlia, signing, self._rng)
        residents = [
            other.resident(other.settings(options), kademlia, signing, self._rng)
            for other in PROTOCOLS.residents_beside(self._protocol)
            if other.resident is not None
        ]
        self._above: list[Any] = [pubsub, *residents]
        self._core = NodeCore(kademlia, pubsub, signing, residents)
        self._timers: dict[Any, int] = {}
        self._heap: list[tuple[int, int, Any]] = []
        self._tell(Started(self._incarnation))
        known = [Contact.of(peer) for peer in self._rng.sample(PEERS, 3)]
        self._do(self._core.settle(known, self._now))
        self._do(self._core.join(known, self._now))

    def _one_input(self) -> None:
        rng = self._rng
        match rng.choices(range(6), (60, 20, 5, 5, 9, 1))[0]:
            case 0:
                self._receive()
            case 1:
                self._fire()
            case 2:
                peer = rng.choice(PEERS)
                kind = rng.choice((Connected, Disconnected, Departed, Unknown))
                self._tell(kind(peer))
            case 3:
                if self._asked:
                    peer, number = rng.choice(self._asked)
                    self._deliver(self._made(Message), lambda m: Answered(peer, m, number))
            case 4:
                self._call()
            case _:
                self._incarnation += 1
                self._start()

    def _receive(self) -> None:
        rng = self._rng
        message = self._made(rng.choice(list(self._codecs)))
        peer, number = self._sender_of(message), rng.getrandbits(20)
        codec = self._codecs[type(message)]
        if codec.is_question(message):
            self._deliver(message, lambda m: Asked(peer, m, number, (b"",)))
        else:
            self._deliver(message, lambda m: Received(peer, m))

    def _sender_of(self, message: Any) -> Peer:
        """Mostly a peer that has the role for a message, so that components see it."""
        rng = self._rng
        peers = rng.sample(PEERS, len(PEERS))
        rules = RULES.get(type(message))
        if rules is None or rng.random() < STRANGERS:
            return peers[0]
        core: Any = self._core._by_message.get(type(message), self._core.pubsub)
        parts = message.parts if hasattr(message, "parts") else (message.part,)
        for peer in peers:
            contact = Contact.of(peer)
            subjects = [
                (rules[type(part)], part if len(message) == 1 else message) for part in parts
            ]
            if all(rule.allows(core._senders, contact, subject) for rule, subject in subjects):
                return peer
        return peers[0]

    def _made(self, kind: type) -> Any:
        return self._maker.message(kind)

    def _deliver(self, message: Any, event: Any) -> None:
        """Have the core handle what its decoder accepts."""
        codec = self._codecs[type(message)]
        try:
            decoded = codec.decode(encoded(codec, message))
        except WireError:
            return
        codec.kinds(decoded)
        list(codec.contacts(decoded))
        self._tell(event(decoded))

    def _fire(self) -> None:
        while self._heap:
            at, _, timer = heapq.heappop(self._heap)
            if self._timers.get(timer) == at:
                del self._timers[timer]
                self._now = max(self._now, at)
                self._tell(TimerFired(timer))
                return

    def _call(self) -> None:
        rng, core = self._rng, self._core
        predicate = rng.choice(PREDICATES)
        is_topical = PROTOCOLS.specs[self._protocol].has_only_topics
        if rng.random() < 0.4 and core.subscriptions:
            self._do(core.unsubscribe(rng.choice(list(core.subscriptions)), self._now))
        elif not is_topical and rng.random() < 0.6:
            _, effects = core.subscribe(predicate, self._now)
            self._do(effects)
        elif not is_topical:
            _, effects = core.publish(predicate, rng.randbytes(4), self._now, wants_all=True)
            self._do(effects)

    def _tell(self, event: Event) -> None:
        self._do(self._core.handle(event, self._now))

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case SetTimer(timer, at):
                    self._timers[timer] = at
                    heapq.heappush(self._heap, (at, self._rng.getrandbits(60), timer))
                case CancelTimer(timer):
                    self._timers.pop(timer, None)
                case Store(key, None):
                    self._storage.pop(key, None)
                case Store(key, bytes(value)):
                    self._storage[key] = value
                case Load(prefix):
                    items = self._storage.items()
                    found = sorted(item for item in items if item[0].startswith(prefix))
                    self._tell(Loaded(prefix, tuple(found)))
                case Send(_, message) | Answer(_, message, _):
                    self._must_be_readable(message)
                case Ask(peer, message, number):
                    self._must_be_readable(message)
                    self._asked = [*self._asked[-20:], (peer, number)]

    def _must_be_readable(self, message: Any) -> None:
        codec = self._codecs[type(message)]
        frame = codec.encode(message)
        assert codec.size(message) == len(frame)
        if len(frame) <= codec.message_bytes_max:
            codec.decode(frame)
        self._maker.notice(message)


def encoded(codec: Codec, message: Any) -> bytes:
    """A message as a peer sends it; what no encoder can write is refused as a decoder would."""
    try:
        return codec.encode(message)
    except (ValueError, TypeError, OverflowError) as error:
        raise WireError("not encodable") from error
