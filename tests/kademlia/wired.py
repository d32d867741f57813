"""A few cores wired together by hand, with a time that goes only when it is told to."""

import hashlib
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from random import Random
from typing import TypeVar

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.settings import SECOND, Settings
from smartpubsub.kademlia.values import Validator
from smartpubsub.seam import (
    Answer,
    Answered,
    Ask,
    Asked,
    CancelTimer,
    Deliver,
    Effect,
    Event,
    Load,
    Loaded,
    Received,
    Send,
    SetTimer,
    Started,
    Store,
    Timer,
    TimerFired,
)

Item = TypeVar("Item")
Command = Callable[[int], tuple[int, list[Effect]]]

LATENCY = 10_000
VALIDATORS: dict[bytes, Validator] = {b"even": lambda _, value: len(value) % 2 == 0}


def contact(number: int) -> Contact:
    return Contact.of(b"peer %d" % number, (b"address %d" % number,))


def new_core(
    number: int, settings: Settings, validators: Mapping[bytes, Validator] | None = None
) -> Kademlia:
    return Kademlia(contact(number), settings, Random(number), validators or VALIDATORS)


def content_id(value: bytes) -> bytes:
    return b"\x12\x20" + hashlib.sha256(value).digest()


def items(effects: list[Effect], kind: type[Item]) -> list[Item]:
    """What of one kind is among effects, or among what they deliver."""
    delivered = [effect.item for effect in effects if isinstance(effect, Deliver)]
    return [item for item in (*effects, *delivered) if isinstance(item, kind)]


class Wired:
    """Cores with numbers, and what is on its way between them."""

    def __init__(self, count: int, settings: Settings | None = None) -> None:
        self.now = 0
        self.settings = settings or Settings()
        self.cores = [new_core(number, self.settings) for number in range(count)]
        self.effects: list[list[Effect]] = [[] for _ in self.cores]
        """All that each core has wanted, also what was not carried out."""
        self.storage: list[dict[bytes, bytes]] = [{} for _ in self.cores]
        self.dead: set[int] = set()
        self._numbers = {core.own.peer: number for number, core in enumerate(self.cores)}
        self._timers: dict[tuple[int, Timer], int] = {}
        self._pending: list[tuple[int, int, int, Event]] = []
        self._sequence = 0
        for number in range(count):
            self.happen(number, Started())

    def joined(self) -> "Wired":
        """All cores have joined by way of the first."""
        for number in range(1, len(self.cores)):
            self.do(number, self.cores[number].join([contact(0)], self.now))
            self.run(5 * SECOND)
        return self

    def happen(self, number: int, event: Event) -> None:
        self.do(number, self.cores[number].handle(event, self.now))

    def ask(self, number: int, command: Command, kind: type[Item]) -> Item:
        """Have a core want something, and see what it is told."""
        before = len(self.effects[number])
        _, effects = command(self.now)
        self.do(number, effects)
        self.run(60 * SECOND)
        (result,) = items(self.effects[number][before:], kind)
        return result

    def run(self, duration: int) -> None:
        until = self.now + duration
        while self._pending and self._pending[0][0] <= until:
            self.now, sequence, number, event = heappop(self._pending)
            if number in self.dead:
                continue
            if isinstance(event, TimerFired):
                if self._timers.get((number, event.timer)) != sequence:
                    continue
                del self._timers[number, event.timer]
            self.happen(number, event)
        self.now = until

    def restart(self, number: int) -> None:
        self.cores[number] = new_core(number, self.settings)
        self._timers = {key: at for key, at in self._timers.items() if key[0] != number}
        self.dead.discard(number)
        self.happen(number, Started())

    def do(self, number: int, effects: list[Effect]) -> None:
        self.effects[number] += effects
        own = self.cores[number].own
        for effect in effects:
            match effect:
                case Send(peer, message):
                    self._send(peer, Received(own.peer, message, own.addresses))
                case Ask(peer, message, ask):
                    self._send(peer, Asked(own.peer, message, ask, own.addresses))
                case Answer(peer, message, ask):
                    self._send(peer, Answered(own.peer, message, ask))
                case SetTimer(timer, at):
                    self._push(at, number, TimerFired(timer))
                    self._timers[number, timer] = self._sequence
                case CancelTimer(timer):
                    self._timers.pop((number, timer), None)
                case Store(key, None):
                    self.storage[number].pop(key, None)
                case Store(key, bytes(value)):
                    self.storage[number][key] = value
                case Load(prefix):
                    stored = sorted(self.storage[number].items())
                    self._push(self.now, number, Loaded(prefix, tuple(stored)))

    def _send(self, peer: bytes, event: Event) -> None:
        if peer in self._numbers:
            self._push(self.now + LATENCY, self._numbers[peer], event)

    def _push(self, at: int, number: int, event: Event) -> None:
        self._sequence += 1
        heappush(self._pending, (at, self._sequence, number, event))
