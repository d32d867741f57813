"""Nodes as an application uses them, on real connections."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any

import pytest
import trio

from smartpubsub import Node, PredicateError
from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.api.choices import Overflow, Wait
from smartpubsub.node.api.events import Event
from smartpubsub.node.api.subscription import EventStream
from smartpubsub.node.errors import (
    NodeClosedError,
    NoSubscriptionError,
    NotPromisedError,
    OverflowedError,
)
from smartpubsub.node.storage.folder import FolderInUseError
from smartpubsub.node.transport.connections import ListenError
from smartpubsub.protocols.pubsub import SubscriptionState
from tests.node.hosts import LOOPBACK, eventually, holds, inside, run

README = Path(__file__).parents[2] / "README.md"


def node_in(folder: Path, *bootstrap: Node) -> Node:
    addresses = [address for node in bootstrap for address in node.addresses]
    return Node(data=folder, listen=[LOOPBACK], bootstrap=addresses)


@asynccontextmanager
async def three_nodes(folder: Path) -> AsyncIterator[tuple[Node, Node, Node]]:
    async with (
        node_in(folder / "a") as a,
        node_in(folder / "b", a) as b,
        node_in(folder / "c", a) as c,
    ):
        yield a, b, c


async def taken(events: EventStream, count: int) -> list[bytes]:
    return [(await anext(events)).payload for _ in range(count)]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


# --- subscribing and publishing ---


def test_a_payload_that_is_none_is_its_callers_mistake_and_the_node_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node, node.subscribe("surf") as events:
            with pytest.raises(TypeError, match="use text= or json="):
                await node.publish("surf", "text")  # type: ignore[arg-type]
            with pytest.raises(SmartPubSubError):
                await node.create_topic(5)  # type: ignore[arg-type]
            await node.publish("surf", bytearray(b"bytes"))  # type: ignore[arg-type]
            assert await taken(events, 1) == [b"bytes"]

    run(main)


def test_an_event_reaches_those_who_want_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            three_nodes(tmp_path) as (a, b, c),
            a.subscribe("surf/price[10,20]") as near,
            c.subscribe("surf") as far,
            c.subscribe("price[16,]") as other,
        ):
            assert inside(near).state is SubscriptionState.IN_FORCE
            receipt = await b.publish("surf/price=15", b"an offer", wait="all")
            await b.publish("price=17", b"another", wait=Wait.ALL)

            event = await anext(near)
            assert (receipt.id, receipt.waited_for) == (event.id, Wait.ALL)
            assert event.publisher == b.peer_id
            assert str(event.predicate) == "surf/price=15"
            assert event.payload == b"an offer"
            assert await taken(far, 1) == [b"an offer"]
            assert await taken(other, 1) == [b"another"]

    run(main)


def test_a_publisher_gets_its_own_events_if_it_wants_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node, node.subscribe("rain") as events:
            await node.publish("rain", b"1", wait=Wait.NOTHING)
            await node.publish("rain", b"2", wait=Wait.RENDEZVOUS)
            assert await taken(events, 2) == [b"1", b"2"]

    run(main)


def test_an_ended_subscription_gets_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with three_nodes(tmp_path) as (a, b, _):
            async with b.subscribe("rain") as events:
                pass
            await a.publish("rain", wait=Wait.ALL)
            assert [event async for event in events] == []
            assert await b.subscriptions() == []

    run(main)


def test_a_subscription_can_be_ended_by_its_number(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node, node.subscribe("rain") as events:
            [wish] = await node.subscriptions()
            assert (wish.number, str(wish.predicate)) == (events.number, "rain")
            await node.unsubscribe(wish.number)
            assert [event async for event in events] == []
            with pytest.raises(NoSubscriptionError, match=f"no subscription {wish.number}"):
                await node.unsubscribe(wish.number)

    run(main)


def test_handlers_are_called_for_what_matches(tmp_path: Path) -> None:
    async def main() -> None:
        got: list[tuple[str, bytes]] = []
        node = node_in(tmp_path)

        @node.on("rain")
        async def on_rain(event: Event) -> None:
            got.append(("rain", event.payload))

        async with node:

            @node.on("snow")
            async def on_snow(event: Event) -> None:
                got.append(("snow", event.payload))

            await eventually(
                lambda: holds(
                    node.subscriptions(),
                    lambda w: [each.state for each in w] == [SubscriptionState.IN_FORCE] * 2,
                )
            )
            await node.publish("rain", b"1", wait=Wait.ALL)
            await node.publish("snow", b"2", wait=Wait.ALL)
            await eventually(lambda: len(got) == 2)
        assert got == [("rain", b"1"), ("snow", b"2")]

    run(main)


# --- more than is taken ---


async def publish_all(node: Node, payloads: list[bytes]) -> None:
    for payload in payloads:
        await node.publish("a", payload, wait=Wait.ALL)


@pytest.mark.parametrize("overflow", [Overflow.DROP_OLDEST, "drop-oldest", None])
def test_the_oldest_events_are_dropped_and_counted(
    overflow: Overflow | str | None, tmp_path: Path
) -> None:
    async def main() -> None:
        options: dict[str, Any] = {} if overflow is None else {"overflow": overflow}
        async with (
            node_in(tmp_path) as node,
            node.subscribe("a", buffer_count_max=3, **options) as events,
        ):
            await publish_all(node, numbered(10))
            assert events.dropped == 7
            got = [await anext(events) for _ in range(3)]
            assert [event.payload for event in got] == numbered(10)[7:]
            assert [event.dropped_before for event in got] == [7, 0, 0]
            await publish_all(node, numbered(4))
            got = [await anext(events) for _ in range(3)]
            assert [event.dropped_before for event in got] == [1, 0, 0]
            assert events.dropped == 8
            [info] = await node.subscriptions()
            assert (info.dropped, info.waiting, info.is_kept) == (8, 0, False)

    run(main)


def test_an_overflow_can_be_an_error_after_which_the_reader_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node_in(tmp_path) as node,
            node.subscribe("a", buffer_count_max=3, overflow="error") as events,
        ):
            await publish_all(node, numbered(5))
            with pytest.raises(
                OverflowedError, match="a has lost 2 events: more than 3 waited"
            ) as e:
                await anext(events)
            assert e.value.lost == 2
            assert await taken(events, 3) == numbered(5)[2:]
            await publish_all(node, numbered(3))
            assert await taken(events, 3) == numbered(3)

    run(main)


def test_with_block_all_events_wait_on_disk(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            three_nodes(tmp_path) as (a, b, _),
            b.subscribe("a", buffer_count_max=2, overflow="block") as events,
        ):
            await publish_all(a, numbered(50))
            assert events.dropped == 0
            assert await taken(events, 50) == numbered(50)
        async with node_in(tmp_path / "b") as b:
            assert await b.subscriptions() == []
            assert list(b._engine.queues) == []

    run(main)


def test_a_queue_on_disk_drops_the_oldest_beyond_its_limit(tmp_path: Path) -> None:
    async def main() -> None:
        node = Node(data=tmp_path, listen=[LOOPBACK], kept_event_count_max=5)
        async with node, node.subscribe("a", keep=True) as events:
            await publish_all(node, numbered(8))
            got = [await anext(events) for _ in range(5)]
            assert [event.payload for event in got] == numbered(8)[3:]
            assert [event.dropped_before for event in got] == [3, 0, 0, 0, 0]
            assert events.dropped == 3

    run(main)


@pytest.mark.parametrize("overflow", list(Overflow))
def test_a_subscription_that_is_not_read_holds_up_no_other(
    overflow: Overflow, tmp_path: Path
) -> None:
    count = 1_300

    async def main() -> None:
        async with (
            node_in(tmp_path / "a") as a,
            node_in(tmp_path / "b", a) as b,
            b.subscribe("a", overflow=overflow) as unread,
            b.subscribe("a", buffer_count_max=count) as read,
            a.subscribe("b") as other,
        ):
            for payload in numbered(count):
                await a.publish("a", payload, wait=Wait.NOTHING)
            assert sorted(await taken(read, count)) == sorted(numbered(count))
            await b.publish("b", b"own publishing goes on", wait=Wait.ALL)
            await a.publish("a", b"and that of others", wait=Wait.ALL)
            assert await taken(other, 1) == [b"own publishing goes on"]
            assert await taken(read, 1) == [b"and that of others"]
            lost = 0 if overflow is Overflow.BLOCK else count + 1 - 1_000
            assert unread.dropped == lost
            assert inside(unread).waiting == count + 1 - lost

    run(main)


@pytest.mark.parametrize(
    ("method", "parameters", "problem"),
    [
        ("subscribe", {"overflow": "drop"}, "allowed are 'drop-oldest', 'error', 'block'"),
        ("subscribe", {"buffer_count_max": 0}, "buffer_count_max=0; expected a whole number"),
        ("publish", {"wait": "some"}, "allowed are 'nothing', 'rendezvous', 'all'"),
        ("publish", {"key": ""}, "a key has 1 to 200 bytes"),
    ],
)
def test_a_wrong_word_is_an_error_that_lists_the_right_ones(
    method: str, parameters: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node:
            with pytest.raises(SmartPubSubError, match=problem):
                await getattr(node, method)("a", **parameters)

    run(main)


# --- starting again ---


def test_a_node_is_ready_when_it_has_met_those_whom_it_remembers(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path / "a") as a:
            async with node_in(tmp_path / "b", a):
                pass
            async with node_in(tmp_path / "b") as b:
                assert await b.peers() == a.addresses

    run(main)


def test_a_node_does_not_wait_for_those_who_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with three_nodes(tmp_path):
            pass
        monkeypatch.setattr("smartpubsub.node.engine.JOIN_S_MAX", inf)
        with trio.fail_after(60):
            async with node_in(tmp_path / "b") as b:
                assert await b.peers() == []
                async with node_in(tmp_path / "c", b) as c:
                    await eventually(
                        lambda: holds(
                            c.peers(),
                            lambda peers: [p.rpartition("/")[2] for p in peers] == [b.peer_id],
                        )
                    )

    run(main)


def test_a_subscription_is_taken_up_again_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path / "a") as a:
            async with node_in(tmp_path / "b", a) as b:
                peer_id = b.peer_id
                before = await b.subscribe("rain").__aenter__()  # And never left.
            async with node_in(tmp_path / "b", a) as b:
                assert b.peer_id == peer_id
                await eventually(
                    lambda: holds(
                        b.subscriptions(),
                        lambda w: [each.state for each in w] == [SubscriptionState.IN_FORCE],
                    )
                )
                await a.publish("rain", b"early", wait=Wait.ALL)
                assert [(w.is_taken, w.waiting) for w in await b.subscriptions()] == [(False, 1)]
                async with b.subscribe("rain") as events:
                    assert events.number == before.number
                    await a.publish("rain", b"late", wait=Wait.ALL)
                    assert await taken(events, 2) == [b"early", b"late"]
                assert await b.subscriptions() == []

    run(main)


def test_the_events_of_a_kept_subscription_wait_for_the_next_reader(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node:
            async with node.subscribe("rain", keep=True) as events:
                await node.publish("rain", b"1", wait=Wait.ALL)
            assert [event async for event in events] == []
            await node.publish("rain", b"2", wait=Wait.ALL)
        async with node_in(tmp_path) as node:
            assert [info.waiting for info in await node.subscriptions()] == [2]
            async with node.subscribe("rain") as passing:
                assert not passing.is_kept
                assert passing.number != events.number
            assert [info.waiting for info in await node.subscriptions()] == [2]
            async with node.subscribe("rain", keep=True) as again:
                assert again.number == events.number
                assert again.is_kept
                assert await taken(again, 2) == [b"1", b"2"]
            assert [(info.is_kept, info.waiting) for info in await node.subscriptions()] == [
                (True, 0)
            ]
            await node.unsubscribe(again.number or 0)
            assert await node.subscriptions() == []

    run(main)


def test_a_reader_continues_a_subscription_that_is_pending_and_was_in_force_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node:
            async with node.subscribe("rain", keep=True) as events:
                pass
            core, has_parent = node._engine.core, False
            state_of = core.state_of

            def state(number: int, now: int) -> SubscriptionState:
                """As after a change of the parent: the core has delivered `Subscribed` before."""
                return state_of(number, now) if has_parent else SubscriptionState.PENDING

            monkeypatch.setattr(core, "state_of", state)
            async with trio.open_nursery() as nursery:
                continued = trio.Event()

                async def read() -> None:
                    async with node.subscribe("rain", keep=True) as again:
                        assert again.number == events.number
                        continued.set()

                nursery.start_soon(read)
                await node.publish("sun")
                assert not continued.is_set()
                has_parent = True
                await node.publish("sun")  # Anything that the core handles.
                with trio.fail_after(10):
                    await continued.wait()

    run(main)


def test_an_event_that_was_not_acknowledged_is_delivered_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node:
            async with node.subscribe("rain", keep=True, acknowledges=False) as events:
                for payload in numbered(4):
                    await node.publish("rain", payload, wait=Wait.ALL)
                ids = [(await anext(events)).id for _ in range(3)]
                await events.taken(ids[1])

            async def fail() -> None:
                async with node.subscribe("rain", keep=True) as again:
                    assert (await anext(again)).id == ids[2]
                    assert await taken(again, 1) == [b"3"]
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fail()
            async with node.subscribe("rain", keep=True) as again:
                assert await taken(again, 1) == [b"3"]
            assert [info.waiting for info in await node.subscriptions()] == [0]

    run(main)


# --- errors ---


def test_a_node_that_does_not_run_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        node = node_in(tmp_path)

        async def uses() -> None:
            for use in (lambda: node.peer_id, lambda: node.addresses):
                with pytest.raises(NodeClosedError, match="inside 'async with Node"):
                    use()
            with pytest.raises(NodeClosedError, match="inside 'async with Node"):
                await node.peers()
            with pytest.raises(NodeClosedError):
                await node.publish("a")
            with pytest.raises(NodeClosedError):
                await node.subscribe("a").__aenter__()

        await uses()
        async with node:
            await node.publish("a", wait=Wait.ALL)
        await uses()

    run(main)


def test_errors_come_out_of_a_node_as_they_are(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(PredicateError):
            async with node_in(tmp_path / "a") as node:
                await node.publish("a[")
        async with node_in(tmp_path / "a") as node:
            with pytest.raises(FolderInUseError):
                await node_in(tmp_path / "a").__aenter__()
            [address] = node.addresses
            taken_address = address.partition("/p2p/")[0]
            with pytest.raises(ListenError, match=re.escape(taken_address)):
                await Node(data=tmp_path / "b", listen=[taken_address]).__aenter__()

    run(main)


@pytest.mark.parametrize(
    "options", [{"protocol": "floodsub"}, {"protocol": "gossipsub"}, {"variant": "base-unreliable"}]
)
def test_what_a_protocol_does_not_promise_is_not_waited_for(
    options: dict[str, Any], tmp_path: Path
) -> None:
    async def main() -> None:
        async with (
            Node(data=tmp_path, listen=[LOOPBACK], **options) as node,
            node.subscribe("rain") as events,
        ):
            with pytest.raises(NotPromisedError, match="use wait="):
                await node.publish("rain", wait=Wait.ALL)
            await node.publish("rain", b"1", wait=Wait.RENDEZVOUS)
            assert await taken(events, 1) == [b"1"]

    run(main)


def test_a_node_that_is_cancelled_ends_its_subscriptions(tmp_path: Path) -> None:
    async def main() -> None:
        with trio.CancelScope() as scope:
            async with node_in(tmp_path) as node, node.subscribe("rain"):
                scope.cancel()
                await trio.sleep_forever()
        async with node_in(tmp_path) as node:
            assert await node.subscriptions() == []

    run(main)


@pytest.mark.parametrize("after_s", [0, 0.001, 0.005, 0.01, 0.05])
def test_a_node_can_be_cancelled_at_any_time(after_s: float, tmp_path: Path) -> None:
    nobody = "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWPH332bRWJqRHHycmLGka4odL32rmfUjCFvvDaqCfKXhE"

    async def main() -> None:
        with trio.move_on_after(after_s) as scope:
            async with Node(data=tmp_path, listen=[LOOPBACK], bootstrap=[nobody]):
                await trio.sleep_forever()
        assert scope.cancelled_caught

    run(main)


def test_a_node_can_listen_nowhere(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path / "a") as a:
            hidden = Node(data=tmp_path / "b", listen=[], bootstrap=a.addresses)
            async with hidden as b, b.subscribe("surf") as events:
                assert b.addresses == []
                await a.publish("surf", b"found", wait=Wait.ALL)
                assert (await anext(events)).payload == b"found"

    run(main)
