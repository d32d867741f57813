"""Nodes for programs that do not run on trio do the same as those that do."""

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from smartpubsub.client.embedded import AsyncioNode, SyncNode
from smartpubsub.node.api.choices import Overflow
from smartpubsub.node.errors import NodeClosedError, NotInTimeError, OverflowedError
from smartpubsub.node.storage.folder import FolderInUseError
from smartpubsub.protocols.car import read_car


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
        event = events.get(timeout_s=60)

        assert (event.id, event.payload, event.publisher) == (receipt.id, b"hello", one.peer_id)
        with pytest.raises(NotInTimeError, match="no event for surf"):
            events.get(timeout_s=0.01)

        one.publish("surf/price=12", b"first", wait="all")
        assert next(iter(events)).payload == b"first"


def test_a_script_hears_why_its_node_does_not_start(tmp_path: Path) -> None:
    with SyncNode(**options(tmp_path)), pytest.raises(FolderInUseError):
        SyncNode(**options(tmp_path)).__enter__()


def test_an_asyncio_program_that_cancels_the_start_of_its_node_can_start_it_again(
    tmp_path: Path,
) -> None:
    async def program() -> None:
        node = AsyncioNode(**options(tmp_path))
        starting = asyncio.create_task(node.__aenter__())
        while node._thread._thread.ident is None:
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        async with AsyncioNode(**options(tmp_path)) as again:
            await again.publish("surf", b"hello")

    asyncio.run(program())


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


def wait_until(condition: Callable[[], bool], within_s: float = 20) -> None:
    """Wait for a condition: other nodes hear of a change a moment later."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition does not hold in time"
        time.sleep(0.02)


def test_a_script_uses_topics(tmp_path: Path) -> None:
    with (
        SyncNode(**options(tmp_path / "one")) as one,
        SyncNode(**options(tmp_path / "other", *one.addresses)) as other,
    ):
        topic = one.create_topic("news", publishers="self", requesters="anyone")
        theirs = other.topic(topic.id)
        with theirs.subscribe() as events:
            receipt = theirs.publish(b"asked for")
            event = events.get(timeout_s=60)
        assert (event.id, event.publisher) == (receipt.content_id, one.peer_id)
        topic.update(subtopics={"more": one.create_topic("more").id})
        wait_until(lambda: [version.version for version in theirs.versions()] == [2, 1])
        assert "more" in theirs.show().subtopics
        theirs.pin()
        assert theirs.stock().is_pinned
        theirs.unpin()
        assert [entry.payload for entry in theirs.history(last=1)] == [b"asked for"]

        path = tmp_path / "news.car"
        count, _ = topic.export(path)
        with path.open("rb") as file, SyncNode(**options(tmp_path / "third")) as third:
            assert third.import_blocks([*read_car(file)[1]]) == count
            assert len(third.topic(topic.id).history()) == 1


def test_what_a_script_has_not_dealt_with_comes_again(tmp_path: Path) -> None:
    with SyncNode(**options(tmp_path)) as node:
        topic = node.create_topic("work")
        with topic.keep():
            pass

        def fail() -> None:
            with topic.keep() as events:
                assert [events.get(timeout_s=60).payload for _ in range(2)] == [b"1", b"2"]
                raise ZeroDivisionError

        for payload in (b"1", b"2"):
            topic.publish(payload)
        with pytest.raises(ZeroDivisionError):
            fail()
        with topic.keep() as events:
            assert events.get(timeout_s=60).payload == b"2"
        (wish,) = node.subscriptions()
        assert wish.waiting == 0
        node.unsubscribe(wish.number)
        assert node.subscriptions() == []


def test_a_script_uses_groups(tmp_path: Path) -> None:
    with (
        SyncNode(**options(tmp_path / "one")) as one,
        SyncNode(**options(tmp_path / "other", *one.addresses)) as other,
    ):
        one.group("apple/price[0,1]").create()
        (found,) = other.search_groups("apple/price[0,0.5]")
        group = other.group(found.predicate, found.owner)
        with group.join("apple/price[0,0.5]") as events:
            one.group("apple/price[0,1]").publish("apple/price=0.4", b"cheap")
            assert events.get(timeout_s=60).payload == b"cheap"
            assert [(known.is_own, known.owner) for known in other.groups()] == [
                (False, one.peer_id)
            ]
            assert [known.member_count for known in one.groups()] == [1]
            assert group.leave() == 1


def test_asyncio_programs_use_topics_and_groups(tmp_path: Path) -> None:
    async def program() -> None:
        async with (
            AsyncioNode(**options(tmp_path / "one")) as one,
            AsyncioNode(**options(tmp_path / "other", *one.addresses)) as other,
        ):
            topic = await one.create_topic("news", ordered=True)
            theirs = other.topic(topic.id)
            async with theirs.keep() as events:
                for number in range(40):
                    await topic.publish(b"%d" % number, wait="nothing")
                got = [(await anext(events)).payload for _ in range(10)]
            async with theirs.keep() as events:  # What lay between the threads is not lost.
                got += [(await anext(events)).payload for _ in range(30)]
            assert got == [b"%d" % number for number in range(40)]
            assert [wish.waiting for wish in await other.subscriptions()] == [0]
            assert len(await theirs.history()) == 40
            (known,) = await other.topics()
            assert (known.topic.name, known.is_own, known.subscription_count) == ("news", False, 1)
            await topic.update(requesters="nobody")
            assert (await theirs.show()).version == 2

            group = await one.group("apple/price[0,1]").create(private=True)
            invitation = await group.invite(other.peer_id)
            theirs_too = other.group("apple/price[0,1]", one.addresses[0])
            async with theirs_too.join(invitation=invitation) as joined:
                await group.publish("apple/price=0.4", b"cheap")
                assert (await anext(joined)).payload == b"cheap"
            assert await other.search_groups("apple/price[0,1]") == []

    asyncio.run(program())


DOCUMENT = (Path(__file__).parents[2] / "docs" / "node.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=["script", "asyncio"])
def test_the_examples_of_the_page_run_and_print_what_they_say(
    example: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/node.md", "exec"), {})

    said = re.findall(r"print\(.*#\s(.*)", example)
    assert capsys.readouterr().out.splitlines() == said != []
