"""Requests and responses between two hosts on one long-lived stream."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.kademlia.settings import Settings
from smartpubsub.node.identity import Identity
from smartpubsub.node.transport.host import Host
from smartpubsub.protocols.codecs import kademlia_codec
from smartpubsub.seam import Answer, Answered, Ask, Asked, Core, Effect, Event
from smartpubsub.testbed.hostile.attacker import NoStorage

LISTEN = ("/ip4/127.0.0.1/tcp/0",)


class Echo:
    """Answers each request with the request itself."""

    def handle(self, event: Event, now: int) -> list[Effect]:  # noqa: ARG002
        """Return the effects of an event."""
        if isinstance(event, Asked):
            return [Answer(event.peer, event.message, event.number)]
        return []


class Asker:
    """Sends a number of requests, several at a time."""

    def __init__(self, message_bytes: int) -> None:
        self.done = trio.Event()
        self._question = Message(Kind.FIND_NODE, bytes(message_bytes))
        self._left = 0
        self._open = 0
        self._number = 0

    def start(self, other: Contact, count: int, at_a_time: int) -> list[Effect]:
        """Send the first requests."""
        self.done = trio.Event()
        self._left, self._open = count - at_a_time, at_a_time
        return [self._ask(other) for _ in range(at_a_time)]

    def handle(self, event: Event, now: int) -> list[Effect]:  # noqa: ARG002
        """Return the effects of an event."""
        if not isinstance(event, Answered):
            return []
        if self._left:
            self._left -= 1
            return [self._ask(Contact.of(event.peer))]
        self._open -= 1
        if not self._open:
            self.done.set()
        return []

    def _ask(self, other: Contact) -> Ask:
        self._number += 1
        return Ask(other.peer, self._question, self._number, other.addresses)


class Requests:
    """Two hosts, one of which sends requests to the other."""

    def __init__(self, request_count: int, request_bytes: int) -> None:
        self._request_count = request_count
        self._asker = Asker(request_bytes)
        self._server = _host(Echo())
        self._client = _host(self._asker)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Requests]:
        """Run both hosts."""
        async with trio.open_nursery() as nursery:
            for host in (self._server, self._client):
                await nursery.start(host.run, LISTEN)
            yield self
            nursery.cancel_scope.cancel()

    async def rate(self, at_a_time: int = 1) -> float:
        """Measure requests per second once more."""
        start = time.perf_counter()
        other, count = self._server.own, self._request_count
        await self._client.do(lambda _: self._asker.start(other, count, at_a_time))
        await self._asker.done.wait()
        return count / (time.perf_counter() - start)


def _host(core: Core) -> Host:
    codecs = [kademlia_codec(Settings())]
    return Host(Identity.new(), lambda _: core, codecs, NoStorage(), on_deliver=lambda _: None)
