"""What a node does for programs that work in batches: journals, ranges of topics, many events."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from smartpubsub import Node
from smartpubsub.node.api.journals import JournalState
from smartpubsub.node.api.past_events import PastPart
from smartpubsub.node.api.topic_ranges import Heads
from smartpubsub.node.errors import ChoiceError, KeyConflictError, NodeError, NoSubscriptionError
from smartpubsub.node.storage.kept import KeptLimits
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import cid_from_text, decode
from smartpubsub.protocols.pulsarcast.events import read_event
from tests.node.hosts import run
from tests.node.test_kept import Disk, delivery
from tests.node.test_node import node_in

SURF = Predicate.parse("surf")


def payloads(node: Node, journal: JournalState, first: int = 0, end: int = 1 << 40) -> list[bytes]:
    page = node.batches.journals.page(journal.number, journal.epoch, first, end)
    return [decode(event)["payload"] for event in page.events]


def test_a_journal_is_read_again_until_it_is_acknowledged(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node:
            await node.publish("surf", b"before", wait="all")
            journal = await node.batches.journals.open(SURF, datetime(2026, 1, 1, tzinfo=UTC))
            for payload in (b"one", b"two", b"three"):
                await node.publish("surf", payload, wait="all")

            assert payloads(node, journal) == [b"before", b"one", b"two", b"three"]
            assert payloads(node, journal, 1, 3) == [b"one", b"two"]
            # An ordinary subscription is another one.
            async with node.subscribe("surf", keep=True) as events:
                assert events.number != journal.number
            await node.batches.journals.take(journal.number, journal.epoch, 3)
            await node.batches.journals.take(journal.number, journal.epoch, 2)
            assert payloads(node, journal) == [b"three"]
        async with node_in(tmp_path) as node:
            assert payloads(node, journal) == [b"three"]
            await node.batches.journals.take(journal.number, journal.epoch, 4)
        async with node_in(tmp_path) as node:
            await node.publish("surf", b"later", wait="all")
            state = node.batches.journals.state(journal.number, journal.epoch)
            assert (state.first, state.end) == (4, 5)
            assert payloads(node, journal, 4, 5) == [b"later"]

            with pytest.raises(NoSubscriptionError, match=r"no journal .* of the epoch 'ab'"):
                node.batches.journals.state(journal.number, "ab")
            await node.unsubscribe(journal.number)
            with pytest.raises(NoSubscriptionError):
                await node.batches.journals.take(journal.number, journal.epoch, 5)

    run(main)


@pytest.mark.parametrize("seed", range(10))
def test_a_sequence_number_of_a_journal_is_never_used_again(seed: int) -> None:
    """The numbers go on after crashes, whatever was acknowledged, dropped or forgotten."""
    rng = Random(seed)
    limits = KeptLimits(
        event_count_max=5, byte_count_max=1 << 20, all_bytes_max=1 << 20, age_us_max=10_000_000_000
    )
    disk = Disk()
    queues = disk.load(limits)
    queue, changes = queues.create(1, is_kept=True, epoch=b"12345678")
    disk.store(changes)
    now, count = 0, 0
    for _ in range(300):
        action = rng.choice(["append", "append", "take", "crash", "wait"])
        if action == "append":
            disk.store(queues.append(queue, delivery(count), now))
            queue.show(str(delivery(count).event.id))
            count += 1
        elif action == "take":
            disk.store(queue.take_to(rng.randint(queue.first - 1, queue.end), now))
        elif action == "wait":
            now += rng.choice([1, 20_000_000_000])
            disk.store(queue.expire(now, limits))
        else:
            queues = disk.load(limits)
            found = queues.get(1)
            assert found is not None
            queue = found
            assert queue.epoch == b"12345678"
        queue.check()
        assert queue.end == count
        stored = queue.stored(0, count, 1 << 20)
        numbers = [decode(each)["number"] for each in stored]
        assert numbers == [*range(queue.first, count)]


def test_ranges_of_a_topic_that_forks_have_each_event_once(tmp_path: Path) -> None:
    async def main() -> None:
        rng = Random(1)
        async with node_in(tmp_path) as node:
            topic = await node.create_topic("news", linking="custom")
            ranges = node.batches.topic_ranges
            ids: list[str] = []
            offsets: list[Heads] = [{}]
            for step in range(30):
                # An event may link far back, to where an earlier batch has ended.
                parents = rng.sample(ids, min(len(ids), rng.randint(0, 3)))
                receipt = await topic.publish(b"%d" % step, parents=parents)
                assert receipt.content_id is not None
                ids.append(receipt.content_id)
                if rng.random() < 0.3:
                    limit = rng.choice([None, 1, 2])
                    end = await ranges.end(topic.cid, offsets[-1], count_max=limit)
                    assert limit is None or end.event_count <= limit
                    offsets.append(end.heads)
            offsets.append((await ranges.end(topic.cid, offsets[-1])).heads)

            async def read(after: Heads, until: Heads) -> list[bytes]:
                page = await ranges.page(topic.cid, after, until, 0, None)
                assert page.lost == ()
                assert page.event_count == len(page.blocks)
                return [read_event(block).cid for block in page.blocks]

            found = [cid for after, until in pairwise(offsets) for cid in await read(after, until)]
            assert len(found) == len({*found})
            assert {*found} == {*map(cid_from_text, ids)}
            assert {*await read({}, offsets[-1])} == {*found}
            lacking = await ranges.page(topic.cid, {}, {cid_from_text(topic.id): 9}, 0, None)
            assert lacking.lost == (topic.cid,)
            # With what events are verified with, the range is all of the topic.
            blocks = [*await ranges.proof(topic.cid)]
            blocks += (await ranges.page(topic.cid, {}, offsets[-1], 0, None)).blocks
            exported = (await topic.blocks()).blocks
            assert len(blocks) == len(exported)
            assert {*blocks} == {*exported}

    run(main)


def test_a_range_that_ends_at_the_beginning_of_a_topic_is_empty(tmp_path: Path) -> None:
    """A reader that ends at the heads of an empty topic does not read what comes later."""

    async def main() -> None:
        async with node_in(tmp_path) as node:
            topic = await node.create_topic("news")
            ranges = node.batches.topic_ranges
            beginning: Heads = {}
            await topic.publish(b"later")
            end = await ranges.end(topic.cid, {}, beginning)
            assert (end.heads, end.event_count) == ({}, 0)
            assert (await ranges.end(topic.cid, {})).heads

    run(main)


def test_pages_of_the_past_are_of_one_read(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node:
            past, since = node.batches.past_events, datetime(2026, 1, 1, tzinfo=UTC)
            await node.publish("surf", b"one", wait="all")
            first = PastPart(0, 1, 1 << 52)
            assert (await past.page(SURF, since, first, 0, 0)).event_count == 1
            await node.publish("surf", b"two", wait="all")
            # The reader goes on with the history that it has counted; the next one has another end.
            assert (await past.page(SURF, since, first, 0, None)).event_count == 1
            second = PastPart(0, 1, (1 << 52) + 1)
            assert (await past.page(SURF, since, second, 0, 0)).event_count == 2

    run(main)


def test_many_events_are_published_in_order_and_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node, node.subscribe("surf") as events:
            batch = [(SURF, b"%d" % number, f"k/{number}") for number in range(50)]
            ids = await node.batches.publish(batch, None, 60)
            again = await node.batches.publish(batch[20:], None, 60)
            assert again == ids[20:]
            got = [await events.get(timeout_s=60) for _ in batch]
            assert [event.payload for event in got] == [payload for _, payload, _ in batch]
            assert [event.id for event in got] == ids

            conflicting = [(SURF, b"new", "new"), (SURF, b"other", "k/3")]
            with pytest.raises(KeyConflictError):
                await node.batches.publish(conflicting, None, 60)
            different = [(SURF, b"one", "same"), (SURF, b"two", "same")]
            with pytest.raises(ChoiceError, match="two different events of the batch"):
                await node.batches.publish(different, None, 60)
            first, second = await node.batches.publish([batch[3], batch[3]], None, 60)
            assert first == second == ids[3]
            topic = await node.create_topic("news")
            with pytest.raises(NodeError, match="unless it is published in a topic"):
                await node.batches.publish(batch, topic, 60)
            await node.batches.publish([(None, b"a", "1"), (None, b"b", "2")], topic, 60)
            await node.batches.publish([(None, b"b", "2"), (None, b"c", "3")], topic, 60)
            assert [entry.payload for entry in await topic.history()] == [b"a", b"b", b"c"]
            await node.publish("surf", b"last")
            assert (await events.get(timeout_s=60)).payload == b"last"

    run(main)
