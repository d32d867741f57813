"""Nodes that are connected over the loopback interface."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import TypeVar

import trio
from trio_typing import TaskStatus

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Joined
from smartpubsub.kademlia.settings import Settings
from smartpubsub.node.api.arrivals import Subscription
from smartpubsub.node.api.subscription import EventStream
from smartpubsub.node.identity import Identity
from smartpubsub.node.transport.connections import Connections
from smartpubsub.node.transport.host import Host
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.baselines.floodsub import Floodsub, FloodsubSettings
from smartpubsub.protocols.baselines.spec import FLOODSUB, rpc_codec
from smartpubsub.protocols.codecs import kademlia_codec
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Delivery, PubSub, Subscribed
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.spec import scoutsubs_codec
from smartpubsub.seam import Peer
from smartpubsub.sim.kernel.signing import StandInSigning

LOOPBACK = "/ip4/127.0.0.1/tcp/0"
MANY_HERE = HostSettings(loopback_is_exempt=True)
"""For many nodes on one machine."""
WATCHDOG_S = 240
"""It ends what hangs, and is no measure of what is slow."""

T = TypeVar("T")


def run(test: Callable[[], Awaitable[T]], clock: trio.abc.Clock | None = None) -> T:
    """Run a test under a watchdog."""

    async def watched() -> T:
        with trio.fail_after(WATCHDOG_S):
            return await test()

    return trio.run(watched, clock=clock)


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until a condition holds; it may be an async function."""
    while True:
        result = condition()
        if await result if isinstance(result, Awaitable) else result:
            return
        await trio.sleep(0.002)


async def holds(asked: Awaitable[T], check: Callable[[T], object]) -> object:
    """Whether a check holds for what a node answers; a condition for `eventually`."""
    return check(await asked)


def inside(stream: EventStream) -> Subscription:
    """What a node knows of a subscription of its own."""
    assert isinstance(stream, Subscription)
    return stream


class Memory(dict[bytes, bytes]):
    """Storage in memory."""

    def apply(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        for key, value in changes:
            if value is None:
                self.pop(key, None)
            else:
                self[key] = value

    def load(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        return sorted(item for item in self.items() if item[0].startswith(prefix))


@asynccontextmanager
async def connections(
    settings: HostSettings | None = None,
    identity: Identity | None = None,
    listen: str = LOOPBACK,
    on_connection: Callable[[Peer, bool], None] = lambda _, __: None,
) -> AsyncIterator[Connections]:
    """Connections without a core."""
    made = Connections(identity or Identity.new(), settings or HostSettings(), on_connection)
    async with trio.open_nursery() as nursery:
        await nursery.start(made.run, [listen])
        yield made
        nursery.cancel_scope.cancel()


class Node:
    """A node with a protocol, and the items that it has delivered."""

    def __init__(
        self,
        protocol: str = "floodsub",
        *,
        settings: HostSettings | None = None,
        identity: Identity | None = None,
        storage: Memory | None = None,
    ) -> None:
        self.protocol = protocol
        self.identity = identity or Identity.new()
        self.storage = Memory() if storage is None else storage
        self.delivered: list[object] = []
        self.host = Host(
            self.identity,
            self._make_core,
            [kademlia_codec(Settings()), rpc_codec(FLOODSUB), scoutsubs_codec()],
            self.storage,
            on_deliver=self.delivered.append,
            settings=settings or MANY_HERE,
        )
        self.core: NodeCore
        self.ending = trio.CancelScope()

    def _make_core(self, own: Contact) -> NodeCore:
        kademlia = Kademlia(own, Settings(), Random(1))
        signing = StandInSigning(own.peer)
        pubsub: PubSub
        if self.protocol == "scoutsubs":
            pubsub = ScoutSubs(ScoutSettings(), kademlia, signing, Random(2))
        else:
            pubsub = Floodsub(FloodsubSettings(), kademlia, signing)
        self.core = NodeCore(kademlia, pubsub, signing)
        return self.core

    async def start(self, nursery: trio.Nursery) -> Node:
        await nursery.start(self._run)
        return self

    async def _run(self, *, task_status: TaskStatus[None]) -> None:
        with self.ending:
            await self.host.run([LOOPBACK], task_status=task_status)

    def crash(self) -> None:
        """Stop without telling peers."""
        self.ending.cancel()

    # --- what can be wanted ---

    async def join(self, *others: Node) -> None:
        contacts = [other.host.own for other in others]
        await self.host.do(lambda now: self.core.join(contacts, now))
        await eventually(lambda: self.has(Joined))

    async def subscribe(self, text: str) -> int:
        number = await self.host.call(lambda now: self.core.subscribe(Predicate.parse(text), now))
        await eventually(lambda: self.has(Subscribed))
        return number

    async def publish(self, text: str, payload: bytes = b"") -> EventId:
        return await self.host.call(
            lambda now: self.core.publish(Predicate.parse(text), payload, now)
        )

    # --- what has come of it ---

    def has(self, kind: type) -> bool:
        return any(isinstance(item, kind) for item in self.delivered)

    @property
    def payloads(self) -> list[bytes]:
        """The payloads of the delivered events."""
        return [item.event.payload for item in self.delivered if isinstance(item, Delivery)]

    @property
    def peer_count(self) -> int:
        """The number of peers that a flooding protocol sends events to."""
        pubsub = self.core.pubsub
        assert isinstance(pubsub, Floodsub)
        return len(pubsub.peers)


@asynccontextmanager
async def network(
    count: int, protocol: str = "floodsub", settings: HostSettings | None = None
) -> AsyncIterator[list[Node]]:
    """Nodes that have joined through the first; with a flooding protocol all know each other."""
    async with trio.open_nursery() as nursery:
        nodes = [await Node(protocol, settings=settings).start(nursery) for _ in range(count)]
        await nodes[0].join()
        for node in nodes[1:]:
            await node.join(nodes[0])
        if protocol == "floodsub":
            await eventually(lambda: all(node.peer_count == count - 1 for node in nodes))
        yield nodes
        nursery.cancel_scope.cancel()
