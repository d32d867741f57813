"""The client in JavaScript, which was written from docs/wire.md, in a network of real nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from smartpubsub import Node
from smartpubsub.node.api.choices import Wait
from tests.interop.javascript import require_packages, running
from tests.node.hosts import LOOPBACK, run


@pytest.fixture(autouse=True)
def _packages() -> None:
    require_packages()


@asynccontextmanager
async def nodes(folder: Path, size: int) -> AsyncIterator[list[Node]]:
    """Nodes that have joined by way of the first; the last ones to start are the first to end."""
    async with AsyncExitStack() as stack:
        network: list[Node] = []
        for number in range(size):
            bootstrap = network[0].addresses if network else []
            node = Node(data=folder / str(number), listen=[LOOPBACK], bootstrap=bootstrap)
            network.append(await stack.enter_async_context(node))
        yield network


@pytest.mark.parametrize("size", [1, 3])
def test_a_client_subscribes_and_gets_what_it_wants(size: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            nodes(tmp_path, size) as network,
            running("main.mjs", network[0].addresses[0], "sub", "surf/price[10,20]") as client,
        ):
            assert (await client.said())["subscribed"] == "surf/price[10,20]"
            publisher = network[-1]
            await publisher.publish("surf/price=5", b"too cheap", wait=Wait.ALL)
            await publisher.publish("surf/price=15", b"an offer", wait=Wait.ALL)
            await publisher.publish("surf/portugal/price=20", b"another", wait=Wait.ALL)
            got = [await client.said() for _ in range(2)]
            assert [(event["event"], event["payload"]) for event in got] == [
                ("surf/price=15", "an offer"),
                ("surf/portugal/price=20", "another"),
            ]
            assert {event["publisher"] for event in got} == {publisher.peer_id}

            async with trio.open_nursery() as nursery:  # These share a signature.
                for payload in (b"one", b"two", b"three"):
                    nursery.start_soon(publisher.publish, "surf/price=15", payload)
            assert {(await client.said())["payload"] for _ in range(3)} == {"one", "two", "three"}

            await client.finish()
            assert await client.said() == {"unsubscribed": "surf/price[10,20]"}
            assert await client.ended() == 0
            await publisher.publish("surf/price=15", b"nobody wants it", wait=Wait.ALL)

    run(main)


@pytest.mark.parametrize("size", [1, 3])
def test_a_client_publishes_what_nodes_and_clients_get(size: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            nodes(tmp_path, size) as network,
            network[-1].subscribe("surf") as events,
            running("main.mjs", network[0].addresses[0], "sub", "surf/price[,]") as client,
        ):
            assert "subscribed" in await client.said()
            entry = network[0].addresses[0]
            async with running("main.mjs", entry, "pub", "surf/price=15", "from js") as other:
                publisher, _, _ = (await other.said())["published"].split("/")
                assert await other.ended() == 0
            event = await anext(events)
            assert (str(event.predicate), event.payload) == ("surf/price=15", b"from js")
            assert event.publisher == publisher
            assert await client.said() == {
                "event": "surf/price=15",
                "payload": "from js",
                "publisher": publisher,
            }

    run(main)
