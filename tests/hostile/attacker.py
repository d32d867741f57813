"""Live nodes, and programs that attack them with the project's own host.

    async with nodes(tmp_path, 2) as (target, other), attackers(target) as (attacker,):
        await attacker.send(target, Bundle((Admitted(...),)))
        assert await works(target, other)

Everything runs in one process, so an exception that ends a node fails the test.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

import trio

from smartpubsub import Node
from smartpubsub.kademlia.keys import Contact
from smartpubsub.node.configuration import NodeConfig
from smartpubsub.node.identity import Identity
from smartpubsub.node.transport.streams import Stream
from smartpubsub.seam import Asked, Connected, Disconnected, Effect, Event, Received
from smartpubsub.testbed.hostile import attacker as hostile
from tests.node.hosts import LOOPBACK

T = TypeVar("T")

WORKS_S_MAX = 60.0
"""How long a node may take to deliver an event after an attack."""


class Attacker(hostile.Attacker):
    """A peer that sends whatever a test wants, and records what it receives."""

    def __init__(self, protocol: str = "scoutsubs", *, identity: Identity | None = None) -> None:
        self.events: list[Event] = []
        super().__init__(protocol, identity=identity)

    # --- attacks ---

    async def connect(self, node: Node) -> None:
        """Connect to a node, and wait until it is done."""
        await self.connect_to(contact_of(node))

    async def send(self, node: Node, *messages: object) -> None:
        """Send messages, each in a frame of its own, in order."""
        await self.send_to(contact_of(node).peer, *messages)

    async def ask(self, node: Node, message: object) -> object:
        """Send a request, and wait for the response."""
        return await self.ask_peer(contact_of(node).peer, message)

    async def open(self, node: Node, protocol: str) -> Stream:
        """Open a stream, to write anything on it."""
        return await self.open_to(contact_of(node).peer, protocol)

    async def write(self, node: Node, protocol: str, data: bytes) -> None:
        """Write bytes on a stream of their own, which stays open."""
        await (await self.open(node, protocol)).write(data)

    # --- what comes of them ---

    def on_event(self, event: Event, now: int) -> list[Effect]:
        self.events.append(event)
        return super().on_event(event, now)

    def received(self, kind: type[T], node: Node | None = None) -> list[T]:
        """The messages of a type that have arrived, from all nodes or from one."""
        return [
            event.message
            for event in self.events
            if isinstance(event, Received | Asked)
            and isinstance(event.message, kind)
            and (node is None or event.peer == contact_of(node).peer)
        ]

    def is_connected(self, node: Node) -> bool:
        """Whether there is a connection, by what the attacker has noticed so far."""
        peer = contact_of(node).peer
        turns = [e for e in self.events if isinstance(e, Connected | Disconnected)]
        about = [event for event in turns if event.peer == peer]
        return bool(about) and isinstance(about[-1], Connected)


@asynccontextmanager
async def attackers(
    *targets: Node, number: int = 1, protocol: str = "scoutsubs"
) -> AsyncIterator[list[Attacker]]:
    """Run attackers that are connected to some nodes."""
    async with trio.open_nursery() as nursery:
        made = [Attacker(protocol) for _ in range(number)]
        for attacker in made:
            await nursery.start(attacker.host.run, [LOOPBACK])
            for target in targets:
                await attacker.connect(target)
        yield made
        nursery.cancel_scope.cancel()


# --- what is attacked ---


@asynccontextmanager
async def nodes(
    folder: Path, number: int = 1, protocol: str = "scoutsubs", **options: object
) -> AsyncIterator[list[Node]]:
    """Run nodes that have joined through the first, with options of `NodeConfig`."""
    async with AsyncExitStack() as stack:
        made: list[Node] = []
        for place in range(number):
            config = NodeConfig(
                data=folder / f"node-{place}",
                protocol=protocol,
                listen=(LOOPBACK,),
                bootstrap=tuple(made[0].addresses) if made else (),
                **options,  # type: ignore[arg-type]
            )
            made.append(await stack.enter_async_context(Node(config=config)))
        yield made


def contact_of(node: Node) -> Contact:
    """The peer id and the addresses of a running node."""
    return node._engine.host.own


async def works(publisher: Node, subscriber: Node | None = None) -> bool:
    """Whether an event that one node publishes reaches another, or itself, in time."""
    wanted = f"works{len(await publisher.subscriptions())}"
    with trio.move_on_after(WORKS_S_MAX):
        async with (subscriber or publisher).subscribe(wanted) as events:
            receipt = await publisher.publish(wanted, b"works")
            async for event in events:
                if event.id == receipt.id:
                    return True
    return False
