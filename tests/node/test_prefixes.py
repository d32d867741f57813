"""A network that limits peers by address prefix: few peers of one machine get a role."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from smartpubsub import Node
from smartpubsub.node.transport.swarm import NEIGHBOURHOOD_BITS, prefix_of
from tests.node.hosts import LOOPBACK, eventually, run


@pytest.mark.parametrize(
    ("host", "prefix"),
    [
        ("192.0.2.7", "192.0.2.0/24"),
        ("192.0.2.200", "192.0.2.0/24"),
        ("192.0.3.7", "192.0.3.0/24"),
        ("2001:db8:1:2::7", "2001:db8:1::/48"),
        ("::ffff:192.0.2.7", "192.0.2.0/24"),
        ("127.0.0.1", "loopback"),
    ],
)
def test_addresses_that_are_rented_together_have_one_prefix(host: str, prefix: str) -> None:
    assert prefix_of(host, NEIGHBOURHOOD_BITS) == prefix


@pytest.mark.parametrize(("is_exempt", "known"), [(False, 2), (True, 4)])
def test_few_peers_of_one_prefix_are_in_a_table(
    tmp_path: Path, is_exempt: bool, known: int
) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            nodes: list[Node] = []
            for number in range(5):
                node = Node(
                    data=tmp_path / str(number),
                    listen=[LOOPBACK],
                    bootstrap=nodes[0].addresses if nodes else [],
                    peers_per_prefix_max=2,
                    loopback_is_exempt=is_exempt,
                )
                nodes.append(await stack.enter_async_context(node))
            tables = [node._engine.core.kademlia.table for node in nodes]
            await eventually(lambda: all(len(table) >= min(known, 2) for table in tables))
            for table in tables:
                closest = table.closest(0, 20)
                assert len(closest) <= known
            if is_exempt:
                await eventually(lambda: all(len(table) == known for table in tables))
            events = await stack.enter_async_context(nodes[4].subscribe("surf"))
            await nodes[3].publish("surf", b"hello", wait="all")
            assert (await anext(aiter(events))).payload == b"hello"

    run(main)
