"""Subscriptions that begin with what was published before, on real connections."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from smartpubsub import Node, SyncNode
from smartpubsub.kademlia.keys import key_of
from smartpubsub.node.api.choices import Overflow
from smartpubsub.node.api.events import Event
from smartpubsub.node.api.subscription import EventStream
from smartpubsub.node.errors import ChoiceError, EventRefusedError, NodeError, NotPromisedError
from smartpubsub.node.identity import identity_in
from smartpubsub.protocols.blocks import BlockError, cid_of, cid_text
from tests.node.hosts import LOOPBACK, run
from tests.node.test_topics import node_in, three_nodes


async def published(node: Node, first: int, count: int) -> list[str]:
    """Ids of events with these prices, one after the other."""
    receipts = [await node.publish(f"surf/price={first + n}") for n in range(count)]
    return [receipt.id for receipt in receipts]


async def told(subscription: EventStream, count: int) -> list[Event]:
    with trio.fail_after(60):
        return [await anext(subscription) for _ in range(count)]


def ids(events: list[Event]) -> list[str]:
    return [event.id for event in events]


def test_who_comes_late_gets_the_past_in_order_and_then_what_comes_across_a_restart(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        key = key_of(b"surf")
        folders = [tmp_path / name for name in "0123"]
        closest, *others = sorted(folders, key=lambda f: key_of(identity_in(f).peer) ^ key)
        async with (
            node_in(others[0]) as reader,
            node_in(others[1], reader) as publisher,
            node_in(others[2], reader),
        ):
            async with node_in(closest, reader):
                past = await published(publisher, 0, 20)
            async with node_in(closest, reader) as rendezvous:
                more = await published(publisher, 20, 5)
                async with reader.subscribe("surf/price[5,]", since=past[2]) as events:
                    assert events.recalled == 20
                    live = await published(publisher, 25, 5)
                    given = await told(events, 25)
                assert ids(given) == past[5:] + more + live
                times = [event.created for event in given if event.created is not None]
                assert times == sorted(times)
                async with rendezvous.subscribe("surf", last=3) as events:
                    assert ids(await told(events, 3)) == live[2:]
                async with rendezvous.subscribe("surf", since=datetime.now(UTC)) as events:
                    assert events.recalled == 0
                    assert events.kept_since is not None
                    assert events.kept_since < times[0]

    run(main)


def test_a_node_alone_keeps_its_past_over_a_restart(tmp_path: Path) -> None:
    with SyncNode(data=tmp_path, listen=[LOOPBACK]) as node:
        begun = datetime.now(UTC)
        past = [node.publish(f"surf/price={n}", b"hi").id for n in range(3)]
    with SyncNode(data=tmp_path, listen=[LOOPBACK]) as node:
        with node.subscribe("surf", since=begun - timedelta(minutes=1)) as events:
            assert events.recalled == 3
            given = [events.get(timeout_s=60) for _ in range(3)]
            assert events.kept_since == given[0].created
            more = node.publish("surf").id
            assert events.get(timeout_s=60).id == more
        with node.subscribe("surf", last=2) as events:
            assert [events.get(timeout_s=60).id for _ in range(2)] == [past[2], more]

    assert [event.id for event in given] == past
    block = given[0].to_block()
    assert cid_text(cid_of(block)) == given[0].cid
    assert Event.from_block(block) == given[0]
    with pytest.raises(NodeError, match="not signed by its publisher"):
        Event.from_block(block.replace(b"hi", b"ho"))
    with pytest.raises(BlockError):
        Event.from_block(b"hi")


def test_a_long_past_is_given_whole_whatever_becomes_of_what_comes_too_fast(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node:
            past = await published(node, 0, 30)
            for overflow in Overflow:
                subscription = node.subscribe(
                    "surf", last=30, buffer_count_max=4, overflow=overflow
                )
                async with subscription as events:
                    assert ids(await told(events, 30)) == past
                    assert events.dropped == 0

    run(main)


def test_the_past_comes_before_what_waits_for_nobody_and_each_event_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node:
            async with node.subscribe("surf", keep=True):
                pass
            past = await published(node, 0, 3)
            assert [info.waiting for info in await node.subscriptions()] == [3]
            async with node.subscribe("surf", last=2, keep=True) as events:
                [more] = await published(node, 3, 1)
                # What waited and is not of the past that was asked for comes too.
                assert ids(await told(events, 4)) == [*past[1:], past[0], more]

    run(main)


def test_what_cannot_be_given_is_said(tmp_path: Path) -> None:
    async def main() -> None:
        async with three_nodes(tmp_path) as (a, b, _):
            for wrong, error in (
                ({"since": "yesterday"}, ChoiceError),
                ({"last": 0}, NodeError),
                ({"since": datetime.now(UTC), "last": 1}, NodeError),
            ):
                with pytest.raises(error):
                    a.subscribe("surf", **wrong)
            await published(a, 0, 1)
            with pytest.raises(EventRefusedError, match="no node keeps an event 0102-3-4"):
                async with b.subscribe("surf", since="0102-3-4"):
                    pass
            assert await b.subscriptions() == []

    run(main)


@pytest.mark.parametrize(
    "options", [{"protocol": "floodsub"}, {"variant": "base-unreliable"}], ids=str
)
def test_protocols_that_keep_nothing_say_so(tmp_path: Path, options: dict[str, str]) -> None:
    async def main() -> None:
        async with node_in(tmp_path, **options) as node:
            with pytest.raises(NotPromisedError, match="keeps no events"):
                async with node.subscribe("surf", last=1):
                    pass

    run(main)


def test_a_node_can_be_told_to_keep_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path, history_s_max=0) as node:
            await published(node, 0, 3)
            async with node.subscribe("surf", last=3) as events:
                assert (events.recalled, events.kept_since) == (0, None)

    run(main)
