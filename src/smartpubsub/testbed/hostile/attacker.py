"""A hostile peer: it has a node's host and no protocol, and sends what an attack chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import trio

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Message
from smartpubsub.node.identity import Identity
from smartpubsub.node.transport.host import Host
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.streams import Stream
from smartpubsub.protocols.codecs import WireLimits
from smartpubsub.protocols.registry import codecs_of
from smartpubsub.seam import (
    Answer,
    Answered,
    Ask,
    Asked,
    Connect,
    Core,
    Effect,
    Event,
    Peer,
    Send,
)

Script = Callable[[Event, int], list[Effect]]
"""An attacker's reaction to an event of its host."""

POLL_S = 0.002


def polite(event: Event, _now: int) -> list[Effect]:
    """Answer questions of Kademlia, so that nodes keep the attacker in their tables."""
    if isinstance(event, Asked) and isinstance(event.message, Message):
        answer = Message(event.message.kind, event.message.key)
        return [Answer(event.peer, answer, event.number)]
    return []


class NoStorage:
    """Storage of a host that needs none."""

    def apply(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Store nothing."""

    def load(self, prefix: bytes) -> list[tuple[bytes, bytes]]:  # noqa: ARG002
        """Find nothing."""
        return []


class Attacker:
    """A peer without a protocol."""

    def __init__(self, protocol: str = "scoutsubs", *, identity: Identity | None = None) -> None:
        self.identity = identity or Identity.new()
        self.script: Script = polite
        """Called with every event; it may be replaced."""
        self.host = Host(
            self.identity,
            lambda _own: _Scripted(self),
            codecs_of(protocol, WireLimits()),
            NoStorage(),
            on_deliver=lambda _item: None,
            settings=HostSettings(),
        )
        self._answers: dict[int, object] = {}
        self._numbers = count(1)

    @property
    def peer(self) -> Peer:
        """The attacker's peer id."""
        return self.identity.peer

    @property
    def contact(self) -> Contact:
        """The attacker's peer id and addresses."""
        return self.host.own

    async def connect_to(self, target: Contact) -> None:
        """Connect to a node, and wait for the connection."""
        while target.peer not in self.host.connections:
            await self._have_done(Connect(target.peer, target.addresses))
            with trio.move_on_after(1):
                while target.peer not in self.host.connections:
                    await trio.sleep(POLL_S)

    async def send_to(self, peer: Peer, *messages: object) -> None:
        """Send messages, each in a frame of its own, in order."""
        await self._have_done(*(Send(peer, message) for message in messages))

    async def ask_peer(self, peer: Peer, message: object) -> object:
        """Send a request, and wait for the response."""
        number = next(self._numbers)
        await self._have_done(Ask(peer, message, number))
        while number not in self._answers:
            await trio.sleep(POLL_S)
        return self._answers.pop(number)

    async def open_to(self, peer: Peer, protocol: str) -> Stream:
        """Open a stream, to write anything on it."""
        return await self.host.connections.open(peer, protocol)

    def on_event(self, event: Event, now: int) -> list[Effect]:
        """Handle an event of the host."""
        if isinstance(event, Answered):
            self._answers[event.number] = event.message
        return self.script(event, now)

    async def _have_done(self, *effects: Effect) -> None:
        await self.host.do(lambda _now: list(effects))


class _Scripted(Core):
    def __init__(self, attacker: Attacker) -> None:
        self._attacker = attacker

    def handle(self, event: Event, now: int) -> list[Effect]:
        return self._attacker.on_event(event, now)
