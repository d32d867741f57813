"""Events from a publisher to a subscriber three links away, through real nodes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import trio

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.queries import Joined
from smartpubsub.kademlia.settings import Settings
from smartpubsub.node.identity import Identity
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.node.storage.store import SqliteStorage
from smartpubsub.node.transport.host import Host
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.pubsub import Delivery, Published, Subscribed
from smartpubsub.protocols.registry import codecs_of, spec_of
from smartpubsub.protocols.spec import ProtocolOptions

LISTEN = ("/ip4/127.0.0.1/tcp/0",)
SCOUTSUBS = "scoutsubs"
TOPIC = Predicate.parse("surf")
HOPS = 3
AT_ONCE = 64
"""The maximum number of unacknowledged events of the publisher."""
STEP_S_MAX = 30.0

# A rendezvous that takes one child redirects the next to it, which fixes the tree's depth.
OPTIONS = ProtocolOptions(overrides={"fan_out_max": 1})


class ThreeHops:
    """A publisher, a rendezvous, a relay that subscribes too, and a subscriber below it."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        # The roles follow from the distances to the topic.
        identities = sorted((Identity.new() for _ in range(4)), key=_distance)
        self._nodes = [
            _Node(identity, stack.enter_context(SqliteStorage(folder / str(identity))))
            for identity in identities
        ]

    async def start(self, nursery: trio.Nursery) -> None:
        """Start the nodes, join and subscribe."""
        first, relay, subscriber, publisher = self._nodes
        for node in self._nodes:
            await nursery.start(node.host.run, LISTEN)
            await node.join([] if node is first else [first.host.own])
        await relay.subscribe(TOPIC)
        await subscriber.subscribe(TOPIC)
        # Measuring begins when the publisher knows the rendezvous.
        await publisher.publish(TOPIC, 1)
        await self._arrive(1)

    async def rate(self, event_count: int, payload_bytes: int) -> float:
        """Measure events per second once more."""
        subscriber, publisher = self._nodes[2:]
        before = len(subscriber.hops)
        start = time.perf_counter()
        await publisher.publish(TOPIC, event_count, bytes(payload_bytes))
        await self._arrive(before + event_count)
        seconds = time.perf_counter() - start
        if {*subscriber.hops[before:]} != {HOPS}:
            raise SmartPubSubError(f"events passed {subscriber.hops[-1]} links, not {HOPS}")
        return event_count / seconds

    async def _arrive(self, total: int) -> None:
        subscriber = self._nodes[2]
        await subscriber.until(lambda: len(subscriber.hops) >= total)


class _Node:
    """A node without an application."""

    def __init__(self, identity: Identity, storage: SqliteStorage) -> None:
        self.hops: list[int] = []
        """The links that each event has passed."""
        self._signing = Ed25519Signing(identity)
        self._core: NodeCore
        self._has_joined = self._has_subscribed = False
        self._unpublished = 0
        self._changed = trio.Event()
        self.host = Host(
            identity, self._make_core, codecs_of(SCOUTSUBS), storage, on_deliver=self._on_deliver
        )

    def _make_core(self, own: Contact) -> NodeCore:
        kademlia = Kademlia(own, Settings(), Random(1))
        pubsub = spec_of(SCOUTSUBS).core(OPTIONS, kademlia, self._signing, Random(2))
        self._core = NodeCore(kademlia, pubsub, self._signing)
        return self._core

    async def join(self, others: list[Contact]) -> None:
        await self.host.do(lambda now: self._core.join(others, now))
        await self.until(lambda: self._has_joined)

    async def subscribe(self, predicate: Predicate) -> None:
        await self.host.call(lambda now: self._core.subscribe(predicate, now))
        await self.until(lambda: self._has_subscribed)

    async def publish(self, predicate: Predicate, event_count: int, payload: bytes = b"") -> None:
        for _ in range(event_count):
            await self.until(lambda: self._unpublished < AT_ONCE)
            self._unpublished += 1
            await self.host.call(lambda now: self._core.publish(predicate, payload, now))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition."""
        with trio.move_on_after(STEP_S_MAX):
            while not condition():
                self._changed = trio.Event()
                await self._changed.wait()
            return
        raise SmartPubSubError(f"no progress for {STEP_S_MAX:g} s; is the machine overloaded?")

    def _on_deliver(self, item: object) -> None:
        match item:
            case Delivery():
                self.hops.append(item.hops)
            case Joined():
                self._has_joined = True
            case Subscribed():
                self._has_subscribed = True
            case Published():
                self._unpublished -= 1
        self._changed.set()


def _distance(identity: Identity) -> int:
    return key_of(identity.peer) ^ key_of(str(TOPIC).encode())


@asynccontextmanager
async def three_hops() -> AsyncIterator[ThreeHops]:
    """Run four nodes in this process, and remove their storage at the end."""
    with TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
            made = ThreeHops(Path(folder), stack)
            await made.start(nursery)
            yield made
            nursery.cancel_scope.cancel()
