"""Nodes for programs that do not run on trio do the same as those that do."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from smartpubsub.node.arrivals import Overflow
from smartpubsub.node.asyncio_bridge import AsyncioNode
from smartpubsub.node.errors import NodeClosedError, NotInTimeError, OverflowedError
from smartpubsub.node.folder import FolderInUseError
from smartpubsub.node.sync import SyncNode


def options(folder: Path, *bootstrap: str) -> dict[str, Any]:
    return {"data": folder, "listen": ["/ip4/127.0.0.1/tcp/0"], "bootstrap": list(bootstrap)}


def test_a_script_publishes_and_gets_events(tmp_path: Path) -> None:
    with (
        SyncNode(**options(tmp_path / "one")) as one,
        SyncNode(**options(tmp_path / "other", *one.addresses)) as other,
        other.subscribe("surf/price[10,20]") as events,
    ):
        one.publish("surf/price=30", b"too dear", wait="all")
        receipt = one.publish("surf/price=15", b"hello", wait="all")
        event = events.get(timeout_s=10)

        assert (event.id, event.payload, event.publisher) == (receipt.id, b"hello", one.peer_id)
        with pytest.raises(NotInTimeError, match="no event for surf"):
            events.get(timeout_s=0.01)

        one.publish("surf/price=12", b"first", wait="all")
        assert next(iter(events)).payload == b"first"


def test_a_script_hears_why_its_node_does_not_start(tmp_path: Path) -> None:
    with SyncNode(**options(tmp_path)), pytest.raises(FolderInUseError):
        SyncNode(**options(tmp_path)).__enter__()


def test_a_node_that_has_ended_says_so(tmp_path: Path) -> None:
    node = SyncNode(**options(tmp_path))
    with node:
        pass

    with pytest.raises(NodeClosedError):
        node.publish("surf")


def test_an_asyncio_program_publishes_and_gets_events(tmp_path: Path) -> None:
    async def program() -> list[bytes]:
        async with (
            AsyncioNode(**options(tmp_path / "one")) as one,
            AsyncioNode(**options(tmp_path / "other", *one.addresses)) as other,
            other.subscribe("surf") as events,
        ):
            for number in range(50):
                await one.publish("surf", b"%d" % number, wait="nothing")
            got = []
            async for event in events:
                got.append(event.payload)
                if len(got) == 50:
                    return got
        raise AssertionError("the subscription has ended before all events came")

    assert asyncio.run(program()) == [b"%d" % number for number in range(50)]


def test_asyncio_programs_hear_of_an_overflow(tmp_path: Path) -> None:
    async def program() -> None:
        async with AsyncioNode(**options(tmp_path)) as node:
            wish = node.subscribe("surf", buffer_count_max=1, overflow=Overflow.ERROR)
            async with wish as events:
                for _ in range(100):
                    await node.publish("surf", wait="all")
                async for _ in events:
                    pass

    with pytest.raises(OverflowedError):
        asyncio.run(program())


def test_an_asyncio_task_that_waits_for_events_can_be_cancelled(tmp_path: Path) -> None:
    async def program() -> None:
        async with AsyncioNode(**options(tmp_path)) as node, node.subscribe("surf") as events:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(events), timeout=0.01)
            await node.publish("surf", b"after that", wait="all")
            assert (await anext(events)).payload == b"after that"

    asyncio.run(program())
