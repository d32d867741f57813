"""Programs use a running node as they use one of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

import anyio
import pytest
import trio

import smartpubsub
from smartpubsub import (
    AsyncioNode,
    Client,
    ControlError,
    Event,
    EventRefusedError,
    EventState,
    KeyConflictError,
    LimitError,
    NodeClosedError,
    NoNodeError,
    NoSubscriptionError,
    NotInTimeError,
    Overflow,
    OverflowedError,
    PayloadError,
    SyncNode,
    connect,
)
from smartpubsub.node.api.listing import JoinRequest
from tests.client.running import running_node
from tests.node.hosts import LOOPBACK


class At(TypedDict, total=False):
    """Where a node is."""

    data: Path
    url: str


@pytest.fixture(scope="module", params=["socket", "gateway"])
def at(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[At]:
    path = tmp_path_factory.mktemp("node")
    with running_node(path) as url:
        yield At(data=path) if request.param == "socket" else At(url=url)


@pytest.fixture(params=["asyncio", "trio"])
def on_loop(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[None]]], None]:
    """Runs a test on each event loop, under a watchdog."""

    def run(test: Callable[[], Awaitable[None]]) -> None:
        async def watched() -> None:
            with anyio.fail_after(60):
                await test()

        anyio.run(watched, backend=request.param)

    return run


def test_a_program_publishes_and_subscribes(at: At, on_loop: Any) -> None:
    async def main() -> None:
        async with connect(**at) as node:
            async with node.subscribe("surf/price[10,20]") as events:
                await node.publish("surf/price=30", b"too dear", wait="all")
                receipt = await node.publish("surf/price=15", b"hello", wait="all")
                event = await anext(events)
                assert (event.id, event.payload) == (receipt.id, b"hello")
                assert event.publisher == node.peer_id
                assert receipt.verify()
                again = Event.from_block(event.to_block())
                assert (again.id, again.cid) == (event.id, event.cid)
                with pytest.raises(NotInTimeError, match="no event for surf"):
                    await events.get(timeout_s=0.01)
            assert await node.subscriptions() == []
            assert (await node.event(receipt.id)).state is EventState.CONFIRMED
            assert await node.peers() == []
            assert node.addresses[0].endswith(node.peer_id)
            assert [v.met for v in await node.explain("surf/price[1,2]", "surf/price=3")] == [
                True,
                False,
            ]
            assert b"smartpubsub_info" in await node.metrics()

    on_loop(main)


def test_history_comes_first(at: At, on_loop: Any) -> None:
    async def main() -> None:
        async with connect(**at) as node:
            for number in range(3):
                await node.publish("past/n=1", b"%d" % number)
            for since in (timedelta(hours=1), "1h"):
                async with node.subscribe("past", since=since) as events:
                    got = [(await anext(events)).payload for _ in range(3)]
                    assert got[-3:] == [b"0", b"1", b"2"]
                    assert events.recalled % 3 == 0
                    assert events.is_whole
            async with node.subscribe("past", last=1) as events:
                assert (await anext(events)).payload == b"2"

    on_loop(main)


def test_a_kept_subscription_goes_on_without_its_reader(at: At, on_loop: Any) -> None:
    async def main() -> None:
        async with connect(**at) as node:
            async with node.subscribe("kept", keep=True) as events:
                number = events.number
            for payload in (b"1", b"2", b"3"):
                await node.publish("kept", payload, wait="all")

            async def fail() -> None:
                async with node.subscribe("kept", keep=True) as events:
                    assert (events.number, events.is_kept) == (number, True)
                    assert [(await anext(events)).payload for _ in range(2)] == [b"1", b"2"]
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fail()
            async with node.subscribe("kept", keep=True) as events:
                # The reader had not dealt with the second one.
                assert [(await anext(events)).payload for _ in range(2)] == [b"2", b"3"]
            assert [wish.waiting for wish in await node.subscriptions()] == [0]
            assert number is not None
            await node.unsubscribe(number)
            with pytest.raises(NoSubscriptionError, match=f"no subscription {number}"):
                await node.unsubscribe(number)

    on_loop(main)


def test_topics_and_groups(at: At, on_loop: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with connect(**at) as node:
            topic = await node.create_topic("news", ordered=True)
            async with topic.subscribe() as events:
                receipt = await topic.publish(json={"rain": True})
                entry = await anext(events)
                assert (entry.id, entry.author) == (receipt.content_id, node.peer_id)
                assert entry.json() == {"rain": True}
            assert [entry.id for entry in await topic.history(last=5)] == [receipt.content_id]
            assert (await topic.show()).name == "news"
            assert (await topic.update(requesters="nobody")).version == 2
            assert topic.id in [
                smartpubsub.Topic(topic._topics, topic._serializer, known.topic.parent).id
                for known in await node.topics()
                if known.topic.parent is not None
            ]
            assert (await topic.export(tmp_path / "news.car")).block_count > 3

            await node.group("apple/price[0,1]").create(private=True)
            assert "apple/price[0,1]" in [str(known.predicate) for known in await node.groups()]

    on_loop(main)


def accepts_cheap_wishes(request: JoinRequest) -> bool | str:
    return str(request.predicates[0]) == "pear/price[0,1]" or "only what is cheap"


def test_an_application_decides_who_joins_its_group(at: At, tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            connect(**at) as node,
            AsyncioNode(data=tmp_path, listen=[LOOPBACK], bootstrap=node.addresses) as other,
        ):
            own = await node.group("pear").create(accept=accepts_cheap_wishes)
            group = other.group("pear", node.addresses[0])
            with pytest.raises(EventRefusedError, match="only what is cheap"):
                await group.join("pear/price[0,5]").open()
            async with group.join("pear/price[0,1]") as events:
                await own.publish("pear/price=1", b"cheap")
                assert (await anext(events)).payload == b"cheap"

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_script_decides_who_joins_its_group(at: At, tmp_path: Path) -> None:
    with connect(**at) as node:
        node.group("pear").create(accept=accepts_cheap_wishes)
        with SyncNode(data=tmp_path, listen=[LOOPBACK], bootstrap=node.addresses) as other:
            group = other.group("pear", node.addresses[0])
            with pytest.raises(EventRefusedError, match="cheap"), group.join("pear/price[0,5]"):
                pass
            with group.join("pear/price[0,1]") as events:
                assert events.number is not None


def test_errors_are_those_of_a_node(at: At, on_loop: Any) -> None:
    async def main() -> None:
        async with connect(**at) as node:
            await node.publish("order", b"1", key="k")
            with pytest.raises(KeyConflictError, match="another content"):
                await node.publish("order", b"2", key="k")
            with pytest.raises(LimitError, match="at most 524,288 bytes"):
                await node.publish("big", bytes(600_000))
            with pytest.raises(PayloadError, match="payload and text are given"):
                await node.publish("order", b"1", text="2")
            with pytest.raises(TypeError, match="wiat"):
                await node.publish("order", wiat="all")  # type: ignore[call-arg]
            with pytest.raises(ValueError, match="allowed are 'drop-oldest'"):
                node.subscribe("order", overflow="nope")  # type: ignore[arg-type]
            with pytest.raises(ZeroDivisionError):  # And not in a group of errors.
                async with connect(**at):
                    raise ZeroDivisionError
        with pytest.raises(NodeClosedError):
            await node.publish("late")

    on_loop(main)


def test_a_reader_that_does_not_read_is_told_how_many_events_it_has_lost(
    at: At, on_loop: Any
) -> None:
    async def main() -> None:
        async with connect(**at) as node:
            wish = node.subscribe("fast", buffer_count_max=2, overflow=Overflow.ERROR)
            async with wish as events:
                for number in range(10):
                    await node.publish("fast", b"%d" % number, wait="all")
                got: list[bytes] = []
                lost = 0
                while got[-1:] != [b"9"]:
                    try:
                        got.append((await anext(events)).payload)
                    except OverflowedError as error:
                        lost += error.lost
                assert 0 < len(got) < 10
                assert len(got) + lost == 10

    on_loop(main)


def test_a_task_that_is_cancelled_leaves_its_subscription(at: At, on_loop: Any) -> None:
    async def main() -> None:
        async with connect(**at) as node:
            with anyio.move_on_after(0.05):
                async with node.subscribe("cancelled") as events:
                    await anext(events)
            assert await node.subscriptions() == []

    on_loop(main)


def test_many_requests_are_made_at_once(at: At, on_loop: Any) -> None:
    async def main() -> None:
        async with connect(**at) as node, node.subscribe("many") as events:
            async with anyio.create_task_group() as tasks:
                for number in range(100):
                    tasks.start_soon(node.publish, "many", b"%d" % number)
            got = {(await anext(events)).payload for _ in range(100)}
            assert got == {b"%d" % number for number in range(100)}

    on_loop(main)


def test_errors_of_handlers_are_told_and_end_nothing(
    at: At, on_loop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        told: list[tuple[str, bytes]] = []
        got: list[bytes] = []
        has_all = anyio.Event()

        def on_error(error: Exception, event: Event | None) -> None:
            assert event is not None
            told.append((repr(error), event.payload))
            raise RuntimeError("and this one ends nothing either")

        async with connect(**at) as node:

            @node.on("handled", on_error=on_error)
            async def handle(event: Event) -> None:
                if event.payload == b"bad":
                    raise ZeroDivisionError
                got.append(event.payload)
                has_all.set()

            while not await node.subscriptions():
                await anyio.sleep(0.01)
            await node.publish("handled", b"bad")
            await node.publish("handled", b"good")
            await has_all.wait()
            assert told == [("ZeroDivisionError()", b"bad")]
            assert got == [b"good"]
            assert node.handler_error_count == 1
        assert "a handler has failed" in caplog.text

    on_loop(main)


class Backwards:
    """A serialiser that needs no library."""

    def dumps(self, value: str) -> bytes:
        return value[::-1].encode()

    def loads(self, payload: bytes) -> str:
        return payload.decode()[::-1]


def test_a_script_needs_no_event_loop(at: At) -> None:
    with connect(**at, serializer=Backwards()) as node:
        with node.subscribe("script") as events:
            node.publish("script", text="héllo")
            node.publish("script", json=[1, None])
            node.publish("script", value="abc")
            texts, document, value = (events.get(timeout_s=60) for _ in range(3))
            assert (texts.text(), document.json(), value.value()) == ("héllo", [1, None], "abc")
            assert value.payload == b"cba"
            with pytest.raises(PayloadError, match="cannot be read as JSON"):
                texts.json()
            with pytest.raises(NotInTimeError):
                events.get(timeout_s=0.01)
        topic = node.create_topic("script")
        with topic.keep() as entries:
            topic.publish(value="abc")
            assert entries.get(timeout_s=60).value() == "abc"
        (wish,) = node.subscriptions()
        node.unsubscribe(wish.number)
        assert wish.is_kept


def test_handlers_of_a_script_run_in_threads(at: At) -> None:
    came = threading.Event()
    errors: list[Exception] = []
    with connect(**at) as node:

        @node.on("threads", on_error=lambda error, _: errors.append(error))
        def handle(event: Event) -> None:
            if event.payload == b"bad":
                raise ZeroDivisionError
            came.set()

        while not node.subscriptions():
            pass
        node.publish("threads", b"bad")
        node.publish("threads", b"good")
        assert came.wait(10)
        assert node.handler_error_count == len(errors) == 1
    with connect(**at) as node:
        assert node.subscriptions() == []


def test_a_client_goes_on_when_its_node_is_started_again(tmp_path: Path) -> None:
    with running_node(tmp_path):
        connection = connect(data=tmp_path)
        node = connection.__enter__()
        first = node.publish("a", key="k")
    with pytest.raises(ControlError, match="no node runs"):
        node.publish("a")
    with running_node(tmp_path):
        assert node.publish("a", key="k").id == first.id
        connection.__exit__(None, None, None)


def test_a_folder_without_a_node_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoNodeError, match="start one with: smartpubsub node run --data"):
        connect(data=tmp_path).__enter__()

    async def main() -> None:
        with pytest.raises(NoNodeError, match="start one with"):
            await connect(data=tmp_path).__aenter__()

    asyncio.run(main())
    trio.run(main)


def test_what_is_given_twice_or_wrong_is_an_error() -> None:
    with pytest.raises(ControlError, match="give one of them"):
        connect(data="a", url="http://127.0.0.1:8080")
    with pytest.raises(ControlError, match="name that with url="):
        connect(token="sps_1")
    for url in ("127.0.0.1:8080", "ftp://127.0.0.1", "http://127.0.0.1:80000"):
        with pytest.raises(ControlError, match="url="):
            connect(url=url)
    with pytest.raises(ControlError, match="never into a URL"):
        connect(url="http://127.0.0.1:8080?token=sps_1")


def test_a_client_that_is_not_connected_says_so() -> None:
    with pytest.raises(NodeClosedError, match="not connected"):
        Client(Backwards()).subscribe("a")
