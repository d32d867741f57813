"""A node that follows the protocol except where it lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.messages import Message
from smartpubsub.kademlia.queries import Joined
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import EventId, Publication, Signing
from smartpubsub.protocols.pubsub import PubSub
from smartpubsub.seam import (
    Answer,
    Deliver,
    Effect,
    Event,
    Peer,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from smartpubsub.sim.adversaries.forgery import Forger, Forker
from smartpubsub.sim.adversaries.kinds import PUBLISHING, Adversary
from smartpubsub.sim.adversaries.lies import (
    Liar,
    Lie,
    forged_answers,
    without_confirmations,
    without_events,
    without_groups,
)
from smartpubsub.sim.kernel.signing import StandInSigning

_TIMER = "adversary"
NAMED_MAX = 20
"""How many peers an answer to a lookup names."""
MISLEADING = ("eclipse", "surround", "route-poison")
"""The kinds that lie in lookups."""


class Credulous:
    """A verification that accepts everything, also the answers that an adversary invents."""

    def is_signed(self, publication: Publication) -> bool:  # noqa: ARG002
        return True

    def is_statement_of(self, peer: Peer, content: Callable[[], bytes], signature: bytes) -> bool:  # noqa: ARG002
        return True

    def is_evidence(self, peer: Peer, statement: Callable[[], bytes], evidence: bytes) -> bool:  # noqa: ARG002
        return True


class CredulousSigning(Credulous, StandInSigning):
    """Signs as its own peer, and accepts all signatures."""


class HostileNode(NodeCore):
    """The core of an adversary: an honest core, whose inputs and effects pass through lies.

    The adversary has no application, so nothing is delivered.
    """

    def __init__(
        self,
        kademlia: Kademlia,
        pubsub: PubSub,
        signing: Signing,
        adversary: Adversary,
        named: Callable[[], Sequence[Contact]] = tuple,
        censored: Peer = b"",
        has_begun: Callable[[], bool] = lambda: True,
    ) -> None:
        """Make an adversary; `censored` is whose events it withholds, `has_begun` the workload."""
        super().__init__(kademlia, pubsub, signing)
        self._own = kademlia.own.peer
        self._forging = signing
        self._kind = adversary.kind
        self._delay_us = round(adversary.value * SECOND) if self._kind == "delay" else 0
        self._after_us = round(adversary.value * SECOND) if self._kind == "flash" else 0
        self._forger = Forger(self._own, signing, named)
        self._forker = Forker(self._own, signing, self._kind)
        self._named = named
        self._censored = censored
        self._has_begun = has_begun
        self._flash_us: int | None = None
        """When a node that follows the protocol at first begins to lie."""
        self._delayed: dict[int, Send] = {}
        self._delayed_count = 0

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an input as an honest node does, and lie."""
        if isinstance(event, TimerFired) and isinstance(event.timer, tuple):
            name, *about = event.timer
            if name == _TIMER:
                return [self._delayed.pop(about[0])]
        answers: list[Effect] = []
        if self._kind == "forge-ack" and isinstance(event, Received):
            liar = Liar(self._own, self._forging, self._incarnation, now)
            forgery = forged_answers(event.peer, event.message, liar)
            answers += [Send(peer, message) for peer, message in forgery.answers]
            if forgery.received is None:
                return answers
            event = event._replace(message=forgery.received)
        return answers + self._falsified(super().handle(event, now), now)

    def subscribe(self, predicate: Predicate, now: int) -> tuple[int, list[Effect]]:
        """Subscribe, and lie."""
        number, effects = super().subscribe(predicate, now)
        return number, self._falsified(effects, now)

    def publish(
        self, predicate: Predicate, payload: bytes, now: int, *, wants_all: bool = False
    ) -> tuple[EventId, list[Effect]]:
        """Publish an event, and lie about events of other nodes."""
        id, effects = super().publish(predicate, payload, now, wants_all=wants_all)
        return id, self._falsified(effects, now)

    def _falsified(self, effects: list[Effect], now: int) -> list[Effect]:
        """Replace the effects of an honest node by those of the adversary."""
        if self._kind == "flash" and not self._has_flashed(now):
            return effects
        sent: list[Effect] = []
        for effect in effects:
            match effect:
                case Deliver(item):
                    if isinstance(item, Joined):
                        sent.append(effect)
                case Answer(_, Message() as message) if self._kind in MISLEADING:
                    sent.append(effect._replace(message=self._misleading(message)))
                case Send(peer, message):
                    sent += self._falsified_send(peer, message, now)
                case _:
                    sent.append(effect)
        return sent

    def _falsified_send(self, peer: Peer, message: object, now: int) -> list[Effect]:
        if self._kind == "forge":
            return [Send(peer, forged) for forged in self._forger.forged(peer, message)]
        if self._kind in PUBLISHING:
            return [Send(peer, self._forker.forked(peer, message))]
        lie = self._lie(message)
        sent: list[Effect] = [] if lie.sent is None else [Send(peer, lie.sent)]
        if self._delay_us:
            if lie.withheld is not None:
                self._delayed_count += 1
                self._delayed[self._delayed_count] = Send(peer, lie.withheld)
                sent.append(SetTimer((_TIMER, self._delayed_count), now + self._delay_us))
            return sent
        for invented in lie.invented:
            sent += self._falsified(super().handle(Received(peer, invented), now), now)
        return sent

    def _lie(self, message: object) -> Lie:
        match self._kind:
            case "broad":
                return without_confirmations(message)
            case "flap" | "flood":
                return Lie(message)
            case "hide":
                return without_groups(message, self._withholds)
        return without_events(message, self._withholds)

    def _withholds(self, name: bytes) -> bool:
        if name.startswith(self._own):
            return False  # The event is the adversary's own.
        if self._kind == "censor":
            return self._censored in name
        if self._kind != "drop-half":
            return True
        return bool(blake2b(name, key=self._own[-32:], digest_size=1).digest()[0] & 1)

    def _has_flashed(self, now: int) -> bool:
        if self._flash_us is None and self._has_begun():
            self._flash_us = now + self._after_us
        return self._flash_us is not None and now >= self._flash_us

    def _misleading(self, message: Message) -> Message:
        named = self._named()
        if not message.closer or not named:
            return message
        key = key_of(message.key)
        nearest: Sequence[Any] = sorted(named, key=lambda one: one.key ^ key)
        return message._replace(closer=tuple(nearest[:NAMED_MAX]))
