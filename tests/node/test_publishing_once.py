"""Publication by key, and what a node knows of its events."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio

from smartpubsub import AsyncioNode, Node, SyncNode
from smartpubsub.node.api.choices import Wait
from smartpubsub.node.api.event_records import (
    RECENT_COUNT_MIN,
    RECENT_US,
    Content,
    Destination,
    EventRecords,
)
from smartpubsub.node.api.listing import EventState
from smartpubsub.node.control.topics import topic_named
from smartpubsub.node.errors import (
    ChoiceError,
    KeyConflictError,
    NodeClosedError,
    PublishError,
    PublishNotInTimeError,
    PublishRefusedError,
)
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, EventIdError
from smartpubsub.protocols.pubsub import Published, Refused
from smartpubsub.seam import Effect
from tests.node.hosts import LOOPBACK, eventually, inside, run
from tests.node.test_node import node_in, taken


def deaf(node: Node, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Have a node's protocol publish nothing, as if no rendezvous could be reached."""
    sent: list[object] = []

    def publish(publication: object, _now: int, **_options: bool) -> list[Effect]:
        sent.append(publication)
        return []

    monkeypatch.setattr(node._engine.core.pubsub, "publish", publish)
    return sent


async def are_acknowledged(node: Node, ids: list[str]) -> bool:
    return {(await node.event(id)).state for id in ids} == {EventState.ACKNOWLEDGED}


def test_the_same_key_is_the_same_event_delivered_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node, node.subscribe("order") as events:
            first = await node.publish("order", b"17", key="order-17")
            again = await node.publish("order", b"17", key="order-17")
            other = await node.publish("order", b"18", key="order-18", wait=Wait.ALL)
            assert again == first
            assert again.verify()
            assert other.id != first.id
            assert await taken(events, 2) == [b"17", b"18"]
            assert inside(events).waiting == 0
            with pytest.raises(KeyConflictError, match=f"belongs to the event {first.id}"):
                await node.publish("order", b"another content", key="order-17")

    run(main)


def test_a_key_is_known_after_a_restart(tmp_path: Path) -> None:
    with SyncNode(data=tmp_path, listen=[LOOPBACK]) as node:
        first = node.publish("order", b"17", key="order-17", wait="all")
    with SyncNode(data=tmp_path, listen=[LOOPBACK]) as node:
        with node.subscribe("order") as events:
            assert node.publish("order", b"17", key="order-17", wait="all") == first
            more = node.publish("order", b"18", wait="all")
            assert events.get(timeout_s=60).id == more.id
        known = node.event(first.id)
        assert (known.state, known.key) == (EventState.CONFIRMED, "order-17")
        assert known.held == first.held
        with pytest.raises(KeyConflictError):
            node.publish("order", b"another", key="order-17")


def test_an_event_that_was_not_acknowledged_is_sent_again_as_the_same_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node:
            with monkeypatch.context() as patched:
                sent = deaf(node, patched)
                with pytest.raises(PublishNotInTimeError) as caught:
                    await node.publish("order", b"17", key="order-17", deadline_s=0.05)
                id = caught.value.id
                assert id is not None
                assert f"has the id {id} and was not acknowledged" in str(caught.value)
                assert "the node goes on trying" in str(caught.value)
                assert f"smartpubsub event {id}" in str(caught.value)
                assert (await node.event(id)).state is EventState.PENDING
                # The attempt is still under way: the node does not send a second one.
                with pytest.raises(PublishNotInTimeError) as caught:
                    await node.publish("order", b"17", key="order-17", deadline_s=0.05)
                assert caught.value.id == id
                assert len(sent) == 1
        async with node_in(tmp_path) as node, node.subscribe("order", last=1) as events:
            receipt = await node.publish("order", b"17", key="order-17")
            assert receipt.id == id
            assert receipt.verify()
            assert (await anext(events)).id == id
            assert (await node.event(id)).state is EventState.ACKNOWLEDGED

    run(main)


def test_a_late_event_is_published_again_by_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node:
            with monkeypatch.context() as patched:
                sent = deaf(node, patched)
                with pytest.raises(PublishNotInTimeError, match="with this id") as caught:
                    await node.publish("order", b"17", deadline_s=0.05)
                id = caught.value.id
                assert id is not None
                with pytest.raises(PublishNotInTimeError):
                    await node.publish("order", b"17", id=id, deadline_s=0.05)
                assert len(sent) == 1  # The first attempt is still under way.
        async with node_in(tmp_path) as node, node.subscribe("order", last=1) as events:
            receipt = await node.publish("order", b"17", id=id)
            assert receipt.id == id
            assert receipt.verify()
            assert await node.publish("order", b"17", id=id) == receipt
            more = await node.publish("order", b"18", wait="all")
            assert [(await anext(events)).id for _ in range(2)] == [id, more.id]
            assert await node.publish("order", b"18", id=more.id, wait="all") == more
            with pytest.raises(PublishError, match="has another content"):
                await node.publish("order", b"19", id=more.id)
            with pytest.raises(PublishError, match="has not published the event") as unknown:
                await node.publish("order", b"17", id=f"{id}0")
            assert unknown.value.state == "unknown"
            with pytest.raises(ChoiceError, match="key and id"):
                await node.publish("order", b"17", id=id, key="order-17")
            assert inside(events).waiting == 0

    run(main)


def test_an_event_that_was_not_acknowledged_in_time_is_sent_again_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        ids: list[str] = []
        async with node_in(tmp_path) as node, node.subscribe("order", keep=True):
            topic = await node.create_topic("orders")
            await node.group("order").create()
            with monkeypatch.context() as patched:
                deaf(node, patched)
                patched.setattr(node._engine.pulsar, "publish_in", lambda *_: [])
                patched.setattr(node._engine.fast, "publish_in", lambda *_, **__: [])
                for publish in (
                    partial(node.publish, "order", b"to all"),
                    partial(topic.publish, b"in the topic"),
                    partial(node.group("order").publish, "order", b"in the group"),
                ):
                    with pytest.raises(PublishNotInTimeError) as caught:
                        await publish(deadline_s=0.05)
                    assert caught.value.state == "pending"
                    assert caught.value.id is not None
                    ids.append(caught.value.id)
        async with node_in(tmp_path) as node:
            await eventually(lambda: are_acknowledged(node, ids))
            async with node.subscribe("order", keep=True) as events:
                event = await anext(events)
                assert (event.id, event.payload) == (ids[0], b"to all")
            [entry] = await node.topic(topic.id).history()
            assert entry.payload == b"in the topic"
        async with node_in(tmp_path) as node:  # Acknowledged events are not sent again.
            assert await are_acknowledged(node, ids)
            assert len(await node.topic(topic.id).history()) == 1

    run(main)


def test_a_publish_under_way_ends_with_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async def publish(node: Node) -> None:
            with pytest.raises(NodeClosedError, match="the node has stopped"):
                await node.publish("order", b"17", deadline_s=300)

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery, node_in(tmp_path) as node:
                sent = deaf(node, monkeypatch)
                nursery.start_soon(publish, node)
                await eventually(lambda: bool(sent))

    run(main)


def test_a_refused_event_is_told_with_its_id(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node:
            with pytest.raises(PublishRefusedError) as caught:
                await node.group("order").publish("order")
            assert caught.value.state == "refused"
            assert caught.value.id is not None
            assert "only the owner" in caught.value.reason
            assert (await node.event(caught.value.id)).state is EventState.REFUSED

    run(main)


def test_each_topic_and_each_group_has_its_own_keys(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node:
            first, second = [await node.create_topic(name) for name in ("first", "second")]
            group = await node.group("order").create()
            ids = [
                [
                    (await node.publish("order", b"17", key="17")).id,
                    (await first.publish(b"17", key="17")).id,
                    (await second.publish(b"17", key="17")).id,
                    (await group.publish("order", b"17", key="17")).id,
                ]
                for _ in range(2)
            ]
            assert ids[0] == ids[1]
            assert len(set(ids[0])) == 4
            assert len(await first.history()) == len(await second.history()) == 1
            with pytest.raises(KeyConflictError) as caught:
                await first.publish(b"18", key="17")
            assert (caught.value.id, caught.value.state) == (None, "unpublished")
        async with node_in(tmp_path) as node:
            again = await node.topic(first.id).publish(b"17", key="17")
            assert again.id == ids[0][1]
            assert again.content_id is not None
            assert len(await node.topic(first.id).history()) == 1

    run(main)


def test_the_versions_of_a_topic_share_their_keys(tmp_path: Path) -> None:
    """A name stands for the newest version: a batch that is repeated after an update is known."""

    async def main() -> None:
        batch = [(None, b"1", "q/0/0"), (None, b"2", "q/0/1")]
        async with node_in(tmp_path) as node:
            topic = await node.create_topic("orders")
            ids = await node.batches.publish(batch, await topic_named(node, "orders"), 60)
            first = await topic.publish(b"3", key="3")
            await topic.update(ordered=True)
        async with node_in(tmp_path) as node:  # The keys come from the storage.
            newest = await topic_named(node, "orders")
            assert newest.id != topic.id
            assert await node.batches.publish(batch, newest, 60) == ids
            assert (await newest.publish(b"3", key="3")).id == first.id
            with pytest.raises(KeyConflictError):
                await newest.publish(b"4", key="3")
            later = await newest.publish(b"5", key="5")
            assert (await node.topic(topic.id).publish(b"5", key="5")).id == later.id
            assert [entry.payload for entry in await newest.history()] == [b"1", b"2", b"3", b"5"]

    run(main)


def test_two_publishers_by_one_key_at_once_get_one_event(tmp_path: Path) -> None:
    async def main() -> None:
        ids: list[str] = []

        async def publish(wait: Wait) -> None:
            ids.append((await node.publish("order", b"17", key="order-17", wait=wait)).id)

        async with node_in(tmp_path) as node, node.subscribe("order") as events:
            async with trio.open_nursery() as nursery:
                for wait in (Wait.RENDEZVOUS, Wait.ALL, Wait.RENDEZVOUS, Wait.ALL, Wait.NOTHING):
                    nursery.start_soon(publish, wait)
            assert len(ids) == 5
            assert len(set(ids)) == 1
            await node.publish("order", b"18", wait=Wait.ALL)
            assert await taken(events, 2) == [b"17", b"18"]

    run(main)


def test_a_node_tells_the_state_of_events(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node, node.subscribe("surf", keep=True) as events:
            receipt = await node.publish("surf", wait=Wait.ALL)
            known = await node.event(receipt.id)
            assert known.state is EventState.CONFIRMED
            assert known.held == receipt.held
            assert known.waiting_in == (events.number,)
            assert known.document()["state"] == "confirmed"
            await events.taken((await anext(events)).id)
            assert (await node.event(receipt.id)).waiting_in == ()
            assert (await node.event("0102-3-4")).state is EventState.UNKNOWN
            with pytest.raises(EventIdError):
                await node.event("surf")

    run(main)


def test_asyncio_programs_publish_by_key(tmp_path: Path) -> None:
    import asyncio

    async def program() -> None:
        async with AsyncioNode(data=tmp_path, listen=[LOOPBACK]) as node:
            first = await node.publish("order", key="order-17")
            assert await node.publish("order", key="order-17") == first
            assert (await node.event(first.id)).state is EventState.ACKNOWLEDGED

    asyncio.run(program())


def test_keys_are_forgotten_beyond_their_limits() -> None:
    records = EventRecords(key_count_max=3, key_age_us_max=100)
    content = Content(Predicate.parse("a"), b"")
    stored: dict[bytes, bytes] = {}
    for number in range(5):
        id = EventId(b"me", 1, number)
        changes = records.add(id, number, content, f"key {number}", wants_all=False)
        changes += records.journal(Published(id), number)
        for key, value in changes:
            if value is None:
                del stored[key]
            else:
                stored[key] = value
    known = [number for number in range(5) if records.with_key(f"key {number}", content, 5)]
    assert known == [2, 3, 4]
    assert len(stored) == 3
    assert records.with_key("key 3", content, 104) is None

    in_topic = content._replace(destination=Destination("topic", "bafy"))
    assert records.with_key("key 4", in_topic, 5) is None
    again = EventRecords(key_count_max=3, key_age_us_max=100)
    again.load(b"me", sorted(stored.items()))
    record = again.with_key("key 4", content, 5)
    assert record is not None
    assert (record.id, record.state) == (EventId(b"me", 1, 4), EventState.ACKNOWLEDGED)
    again.journal(Refused(record.id, "no"), 6)
    assert (record.state, record.reason) == (EventState.REFUSED, "no")


def test_a_key_that_is_used_again_after_its_time_names_the_later_event() -> None:
    records = EventRecords(key_count_max=3, key_age_us_max=100)
    content = Content(Predicate.parse("a"), b"")
    for number, at in enumerate((0, 200, 400)):
        assert records.with_key("order", content, at) is None
        id = EventId(b"me", 1, number)
        records.add(id, at, content, "order", wants_all=False)
        record = records.with_key("order", content, at + 1)
        assert record is not None
        assert record.id == id


def test_events_without_a_key_are_forgotten_after_minutes_but_for_the_last_few() -> None:
    records, content = (
        EventRecords(key_count_max=3, key_age_us_max=100),
        Content(Predicate.parse("a"), b""),
    )
    ids = [EventId(b"me", 1, number) for number in range(RECENT_COUNT_MIN + 10)]
    for id in ids:
        records.add(id, 0, content, None, wants_all=False)
    pending = ids[3]
    for id in ids:
        if id != pending:
            records.journal(Published(id), 0)
    assert all(records.get(str(id)) is not None for id in ids)

    late = EventId(b"me", 1, len(ids))
    records.add(late, RECENT_US + 1, content, None, wants_all=False)
    assert [id for id in [*ids, late] if records.get(str(id)) is None] == ids[:3]

    records.journal(Published(pending), RECENT_US)
    later = EventId(b"me", 1, len(ids) + 1)
    records.add(later, RECENT_US + 1, content, None, wants_all=False)
    known = [id for id in [*ids, late, later] if records.get(str(id)) is not None]
    assert known == [*ids, late, later][-RECENT_COUNT_MIN:]
