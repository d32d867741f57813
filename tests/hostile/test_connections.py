"""One machine cannot take all connections of a node, nor push its neighbours out."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from multiaddr import Multiaddr

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.streams import UnreachableError
from smartpubsub.seam import Connect
from tests.hostile.attacker import attackers, contact_of, nodes, works
from tests.node import hosts
from tests.node.hosts import connections, eventually, run
from tests.node.test_garbage import stranger_at


def test_many_connections_from_one_address_push_nobody_out(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            target, other = await stack.enter_async_context(nodes(tmp_path, 2))
            host, here = target._engine.host, contact_of(target)
            refused = 0
            for _ in range(30):
                attacker = await stack.enter_async_context(connections())
                try:
                    await attacker.dial(here.peer, here.addresses[0])
                except UnreachableError:
                    refused += 1
            assert refused >= 22
            assert host.counts.refused_prefix >= 22
            assert host.connections.count <= 8
            assert contact_of(other).peer in host.connected
            assert await works(target, other)

    run(main)


def test_a_third_of_the_connections_is_for_peers_that_the_node_dials() -> None:
    async def main() -> None:
        few = HostSettings(connection_count_max=6, connection_count_high=6, loopback_is_exempt=True)
        node = hosts.Node(settings=few)
        async with stranger_at(node), AsyncExitStack() as stack:
            peer, address = node.host.own.peer, node.host.own.addresses[0]
            for _ in range(3):
                await (await stack.enter_async_context(connections())).dial(peer, address)
            one_more = await stack.enter_async_context(connections())
            with pytest.raises(UnreachableError):
                await one_more.dial(peer, address)
            assert node.host.counts.refused_connections == 1

            for _ in range(2):
                there = await stack.enter_async_context(connections())
                await node.host.connections.dial(there.peer, there.addresses[0])
            assert node.host.connections.count == 6

    run(main)


def test_idle_connections_to_neighbours_stay() -> None:
    async def main() -> None:
        few = HostSettings(connection_count_high=2, idle_s_min=0)
        node = hosts.Node(settings=few)
        neighbours: dict[bytes, None] = {}
        node.host._neighbours = lambda: neighbours
        async with stranger_at(node) as neighbour, AsyncExitStack() as stack:
            neighbours[neighbour.peer] = None
            peer, address = node.host.own.peer, node.host.own.addresses[0]
            for _ in range(4):
                await (await stack.enter_async_context(connections())).dial(peer, address)
            await eventually(lambda: node.host.connections.count <= 2)
            assert node.host.counts.pruned >= 3
            assert neighbour.peer in node.host.connections

    run(main)


def test_a_lie_about_the_addresses_of_a_node_does_not_hide_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            nodes(tmp_path) as (target,),
            attackers(target, number=2) as (honest, liar),
            attackers() as (third,),
        ):
            host = target._engine.host
            await honest.ask(target, Message(Kind.FIND_NODE, b"surf", closer=(third.contact,)))
            for first in range(1, 200, 8):  # No process listens there, as if the node had left.
                ports = range(first, first + 8)
                false = [Multiaddr(f"/ip4/127.0.0.1/tcp/{port}").to_bytes() for port in ports]
                lie = Contact.of(third.peer, tuple(false))
                await liar.ask(target, Message(Kind.FIND_NODE, b"surf", closer=(lie,)))
            known = host.book.of(third.peer)[: host.settings.address_tries_max]
            assert third.contact.addresses[0] in known

            await host.do(lambda _now: [Connect(third.peer, ())])
            await eventually(lambda: third.peer in host.connections)

    run(main)
