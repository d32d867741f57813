"""Topics as applications use them, on real connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trio

from smartpubsub import Node
from smartpubsub.node.api.events import Entry
from smartpubsub.node.api.listing import Gaps
from smartpubsub.node.api.subscription import EventStream
from smartpubsub.node.api.topic import Topic
from smartpubsub.node.errors import EventRefusedError, NodeError, NotPromisedError
from smartpubsub.protocols.blocks import cid_of, cid_text
from smartpubsub.protocols.car import read_car
from tests.node.hosts import LOOPBACK, run


def node_in(folder: Path, *bootstrap: Node, **options: Any) -> Node:
    addresses = [address for node in bootstrap for address in node.addresses]
    return Node(data=folder, listen=[LOOPBACK], bootstrap=addresses, **options)


@asynccontextmanager
async def three_nodes(folder: Path, **options: Any) -> AsyncIterator[tuple[Node, Node, Node]]:
    async with (
        node_in(folder / "a", **options) as a,
        node_in(folder / "b", a, **options) as b,
        node_in(folder / "c", a, **options) as c,
    ):
        yield a, b, c


async def told(subscription: EventStream, count: int) -> list[Entry]:
    """The next so many events."""
    entries: list[Entry] = []
    with trio.fail_after(60):
        while len(entries) < count:
            entry = await anext(subscription)
            assert isinstance(entry, Entry)
            entries.append(entry)
    return entries


async def published(topic: Topic, *payloads: bytes) -> None:
    for payload in payloads:
        await topic.publish(payload)


def test_a_topic_is_made_written_in_read_and_its_past_asked_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with three_nodes(tmp_path) as (a, b, c):
            topic = await a.create_topic("news", ordered=True)
            await published(topic, b"one", b"two")
            theirs = b.topic(topic.id)
            async with theirs.subscribe(last=1) as events:
                receipt = await c.topic(topic.id).publish(b"three")
                two, three = await told(events, 2)
            assert receipt.content_id == three.id
            assert (two.payload, three.payload) == (b"two", b"three")
            assert three.parents == (two.id,)
            assert (three.author, three.publisher) == (c.peer_id, a.peer_id)
            assert cid_text(cid_of(three.block)) == three.id
            everything = await c.topic(topic.id).history()
            assert [entry.payload for entry in everything] == [b"one", b"two", b"three"]
            since = await b.topic(topic.id).history(since=everything[0].id)
            assert [entry.payload for entry in since] == [b"two", b"three"]
            future = datetime.now(UTC) + timedelta(minutes=1)
            assert await b.topic(topic.id).history(since=future) == []
            shown = await b.topic(topic.id).show()
            assert (shown.name, shown.rules.is_chained) == ("news", True)

    run(main)


def test_a_subscription_since_an_event_goes_on_with_no_gap_and_no_repeat(tmp_path: Path) -> None:
    async def main() -> None:
        async with three_nodes(tmp_path) as (a, b, _):
            topic = await a.create_topic("busy")
            await published(topic, *(b"%d" % number for number in range(5)))
            first = (await topic.history())[0]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(published, topic, *(b"%d" % number for number in range(5, 25)))
                async with b.topic(topic.id).subscribe(since=first.id) as events:
                    entries = await told(events, 24)
            assert [entry.payload for entry in entries] == [b"%d" % n for n in range(1, 25)]

    run(main)


def test_rules_and_links_are_the_applications(tmp_path: Path) -> None:
    async def main() -> None:
        async with three_nodes(tmp_path) as (a, b, _):
            topic = await a.create_topic("tree", linking="custom")
            await topic.publish(b"root", parents=[])
            (root,) = await topic.history()
            for payload in (b"left", b"right"):
                await topic.publish(payload, parents=[root.id])
            _, left, right = await topic.history()
            assert left.parents == right.parents == (root.id,)
            with pytest.raises(EventRefusedError, match="name parents, or"):
                await topic.publish(b"x")
            closed = await a.create_topic("mine", publishers="self")
            with pytest.raises(EventRefusedError, match="does not allow"):
                await b.topic(closed.id).publish(b"x")
            with pytest.raises(NodeError, match="choose one"):
                await topic.history(since=root.id, last=1)

    run(main)


def test_a_topic_goes_through_a_file_to_a_node_that_never_met_it(tmp_path: Path) -> None:
    path = tmp_path / "news.car"
    ids = []

    async def write() -> None:
        async with node_in(tmp_path / "a") as a:
            topic = await a.create_topic("news")
            await published(topic, b"one", b"two", b"three")
            ids.append(topic.id)
            # And one that tells of the topic.
            assert await topic.export(path) == (2 + 1 + 3, Gaps())

    async def read() -> None:
        async with node_in(tmp_path / "z") as z:
            with path.open("rb") as file:
                roots, blocks = read_car(file)
                assert cid_text(roots[0]) == ids[0]
                assert await z.import_blocks([*blocks]) == 6
            history = await z.topic(ids[0]).history()
            assert [entry.payload for entry in history] == [b"one", b"two", b"three"]

    async def read_again() -> None:
        async with node_in(tmp_path / "z") as z:
            assert len(await z.topic(ids[0]).history(last=2)) == 2

    run(write)
    run(read)
    run(read_again)


def test_what_is_refused_of_a_file_is_counted_by_reason(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node, (await node.create_topic("x")).subscribe():
            assert await node.import_blocks([b"no block", b"nor this"]) == 0
            text = (await node.metrics()).decode()
        assert 'libp2p_pubsub_reject_reason_total{reason="malformed"} 2.0' in text
        assert 'smartpubsub_held{what="pulsarcast: topics"} 1.0' in text
        assert 'smartpubsub_subscriptions{state="in force"} 1.0' in text

    run(main)


def test_a_node_that_was_away_has_its_topics_back(tmp_path: Path) -> None:
    ids = []

    async def write() -> None:
        async with node_in(tmp_path / "a") as a:
            topic = await a.create_topic("diary", ordered=True)
            await published(topic, b"monday")
            ids.append(topic.id)

    async def go_on() -> None:
        async with node_in(tmp_path / "a") as a:
            topic = a.topic(ids[0])
            await published(topic, b"tuesday")
            monday, tuesday = await topic.history()
            assert (monday.payload, tuesday.payload) == (b"monday", b"tuesday")
            assert tuesday.parents == (monday.id,)

    run(write)
    run(go_on)


def test_a_node_with_topics_only_refuses_a_predicate_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(data=tmp_path, listen=[LOOPBACK], protocol="pulsarcast") as node:
            with pytest.raises(NotPromisedError, match="run the node with --protocol scoutsubs"):
                await node.subscribe("surf").open()
            topic = await node.create_topic("news")
            async with node.subscribe(topic.id):
                pass

    run(main)


def test_a_call_that_is_cancelled_before_it_begins_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node:
            topic = await node.create_topic("news")
            host = node._engine.host
            host.hold(True)
            with trio.move_on_after(0.1):
                await topic.history()
            with trio.move_on_after(0.1):
                await node.search_groups("apple")
            host.hold(False)
            assert await topic.history() == []
            assert await node.search_groups("apple") == []
            assert node._topics._answers == {}
            assert node._groups._found == {}
            assert node._engine.calls._waiting == {}

    run(main)


def test_events_of_topics_and_groups_that_are_dropped_from_memory_are_counted(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node:
            topic = await node.create_topic("news")
            group = await node.group("apple").create()
            theirs = node.group("apple", node.peer_id)
            async with topic.subscribe(buffer_count_max=1), theirs.join(buffer_count_max=1):
                for number in range(3):
                    await topic.publish(b"%d" % number)
                    await group.publish("apple", b"%d" % number, wait="all")
                assert node._engine.dropped_in_memory == 4

    run(main)
