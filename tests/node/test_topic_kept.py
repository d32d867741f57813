"""Subscriptions to topics that are kept, on real connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from smartpubsub import Node
from smartpubsub.node.api.topic import Topic
from smartpubsub.node.errors import NoSubscriptionError
from smartpubsub.protocols.blocks import cid_text
from tests.node.hosts import eventually, holds, run
from tests.node.test_topics import node_in, published, told


async def waiting(node: Node) -> list[int]:
    return [wish.waiting for wish in await node.subscriptions()]


async def taken(topic: Topic, count: int) -> list[bytes]:
    """The next so many events of a subscription that is kept."""
    async with topic.keep() as events:
        return [entry.payload for entry in await told(events, count)]


def test_what_nobody_has_taken_waits_for_the_next_who_does(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path / "a") as a, node_in(tmp_path / "b", a) as b:
            topic = await a.create_topic("news", ordered=True)
            theirs = b.topic(topic.id)
            await published(topic, b"before")
            assert await taken(theirs, 0) == []
            await published(topic, b"1", b"2", b"3")
            await eventually(lambda: holds(waiting(b), lambda counts: counts == [3]))
            assert await taken(theirs, 2) == [b"1", b"2"]
            assert await waiting(b) == [1]
            await topic.update(requesters="nobody")
            newest = b.topic(cid_text((await theirs.versions())[0].cid))  # It is the same topic.
            assert await taken(newest, 1) == [b"3"]
            (wish,) = await b.subscriptions()
            await b.unsubscribe(wish.number)
            assert await b.subscriptions() == []
            with pytest.raises(NoSubscriptionError):
                await b.unsubscribe(wish.number)

    run(main)


def test_an_event_that_was_not_dealt_with_comes_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path / "a") as a:
            topic = await a.create_topic("work")
            await taken(topic, 0)
            await published(topic, b"1", b"2")

            async def fail() -> None:
                async with topic.keep() as events:
                    await told(events, 2)
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fail()
            assert await taken(topic, 1) == [b"2"]

    run(main)


def test_what_waits_can_be_had_although_nobody_else_is_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path / "a") as a:
            topic = await a.create_topic("news")
            async with node_in(tmp_path / "b", a) as b:
                await taken(b.topic(topic.id), 0)
                await published(topic, b"1", b"2")
                await eventually(lambda: holds(waiting(b), lambda counts: counts == [2]))
        async with node_in(tmp_path / "b") as b:
            assert await taken(b.topic(topic.id), 2) == [b"1", b"2"]

    run(main)


def test_a_kept_subscription_goes_on_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path / "a") as a:
            topic = await a.create_topic("news", ordered=True)
            await published(topic, b"history")
            async with node_in(tmp_path / "b", a) as b, b.topic(topic.id).keep(last=5) as events:
                await published(topic, b"1", b"2")
                entries = await told(events, 2)
                assert [entry.payload for entry in entries] == [b"history", b"1"]
            await published(topic, b"3")
            async with node_in(tmp_path / "b", a) as b, b.topic(topic.id).keep(last=5) as events:
                await published(topic, b"4")
                entries = await told(events, 3)
                assert [entry.payload for entry in entries] == [b"2", b"3", b"4"]

    run(main)
