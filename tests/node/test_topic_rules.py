"""Who may do what in topics, and new versions of them, on real connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from smartpubsub.node.api.topic_rules import RulesError
from smartpubsub.node.errors import EventRefusedError, NodeError, NotOwnerError
from smartpubsub.protocols.pulsarcast.topics import Linking
from tests.node.hosts import eventually, holds, run
from tests.node.test_topics import three_nodes, told


def test_subscribers_follow_to_a_new_version_in_which_others_may_publish(tmp_path: Path) -> None:
    async def main() -> None:
        async with three_nodes(tmp_path) as (a, b, c):
            topic = await a.create_topic("news", publishers="self")
            async with c.topic(topic.id).subscribe() as events:
                await topic.publish(b"first")
                with pytest.raises(EventRefusedError, match="does not allow this node to publish"):
                    await b.topic(topic.id).publish(b"too early")
                second = await topic.update(publishers=["self", b.peer_id])
                await b.topic(topic.id).publish(b"by b")
                assert [entry.payload for entry in await told(events, 2)] == [b"first", b"by b"]
                third = await topic.update(publishers="self", requesters="anyone")
                asked = await b.topic(topic.id).publish(b"asked for")
                (entry,) = await told(events, 1)
            assert (entry.id, entry.author, entry.publisher) == (
                asked.content_id,
                b.peer_id,
                a.peer_id,
            )
            versions = await c.topic(topic.id).versions()
            assert [v.cid for v in versions[:2]] == [third.cid, second.cid]
            assert [v.version for v in versions] == [3, 2, 1]
            assert (await b.topic(topic.id).show()).rules.takes_requests

    run(main)


def test_what_must_not_be_is_told_in_words(tmp_path: Path) -> None:
    async def main() -> None:
        async with three_nodes(tmp_path) as (a, b, _):
            topic = await a.create_topic("news", publishers=["self"])
            with pytest.raises(NotOwnerError, match=f"the author of 'news' is {a.peer_id}"):
                await b.topic(topic.id).update(publishers="anyone")
            with pytest.raises(NodeError, match="version 1 of 'news' has these rules"):
                await topic.update(publishers=[a.peer_id])
            with pytest.raises(RulesError, match="an ordered topic has its rules"):
                await a.create_topic("x", ordered=True, linking="custom")
            ordered = await a.create_topic("minutes", ordered=True)
            with pytest.raises(RulesError, match="ordered=False, or --unordered"):
                await ordered.update(publishers="anyone")
            changed = await ordered.update(ordered=False)
            assert (changed.rules.publishers, changed.rules.is_chained) == (None, False)
            with pytest.raises(RulesError, match="'anyone' and others"):
                await a.create_topic("x", publishers=["anyone", b.peer_id])
            with pytest.raises(RulesError, match="name at least one peer"):
                await a.create_topic("x", requesters=[])
            with pytest.raises(NodeError, match="neither a peer id"):
                await a.create_topic("x", publishers=["somebody"])
            with pytest.raises(RulesError, match="there are last-seen and custom"):
                await a.create_topic("x", linking="any")  # type: ignore[arg-type]
            with pytest.raises(RulesError, match="every topic's own"):
                await topic.update(subtopics={"meta": topic.id})
            with pytest.raises(RulesError, match="no sub-topic 'surf'"):
                await topic.update(subtopics={"surf": None})
            assert (await topic.show()).version == 1

    run(main)


def test_sub_topics_and_rules_change_one_by_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with three_nodes(tmp_path) as (a, b, _):
            surf = await b.create_topic("surf")
            topic = await a.create_topic("sports", subtopics={"surf": surf.id}, linking="custom")
            assert (await b.topic(topic.id).show()).subtopics["surf"] == surf.cid
            second = await topic.update(requesters=[b.peer_id], publishers="self")
            assert second.subtopics["surf"] == surf.cid
            assert second.rules.linking is Linking.CUSTOM
            third = await topic.update(subtopics={"surf": None, "waves": surf.id})
            assert {*third.subtopics} == {"meta", "waves"}
            assert third.rules == second.rules
            root = await topic.publish(b"root", parents=[])
            assert root.content_id is not None
            await topic.publish(b"next", parents=[root.content_id])
            await b.topic(topic.id).publish(b"an answer", parents=[root.content_id])
            payloads = {entry.payload: entry.parents for entry in await topic.history()}
            assert payloads[b"an answer"] == payloads[b"next"] == (root.content_id,)

    run(main)


def test_a_pinned_topic_is_kept_whole_and_others_are_not(tmp_path: Path) -> None:
    async def main() -> None:
        limits = {"topic_event_count_max": 5}
        async with three_nodes(tmp_path, **limits) as (a, b, _):
            topics = [await a.create_topic(name) for name in ("pinned", "other")]
            await b.topic(topics[0].id).pin()
            for topic in topics:
                for number in range(8):
                    await topic.publish(b"%d" % number)
            pinned, other = (b.topic(topic.id).stock for topic in topics)
            await eventually(lambda: holds(pinned(), lambda stock: stock.event_count == 8))
            await eventually(lambda: holds(other(), lambda stock: stock.event_count == 5))
            assert (await pinned()).is_pinned
            assert len(await b.topic(topics[0].id).history()) == 8
            await b.topic(topics[0].id).unpin()
            assert not (await pinned()).is_pinned
            assert (await pinned()).event_count == 5

    run(main)
