"""Events over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
import trio

from smartpubsub import Node
from smartpubsub.gateway.connections import ConnectionLimits
from smartpubsub.gateway.server import Gateway
from smartpubsub.gateway.streams import StreamLimits
from smartpubsub.node.config_values import Endpoint
from tests.gateway.serving import Frame, publish, served, stream
from tests.node.hosts import LOOPBACK, run

STRUCTURED = {"content-type": "application/cloudevents+json"}


def test_a_published_event_comes_as_a_cloudevent(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            served(tmp_path) as (node, _, http),
            stream(http, "/v1/events", filter="surf/price[10,20]") as events,
        ):
            await publish(http, "surf/price=30", "too dear")
            id = await publish(http, "surf/price=15", "good")
            frame = await anext(events)
            assert frame.data["id"] == id
            assert frame.data["source"] == f"/p2p/{node.peer_id}"
            assert frame.data["predicate"] == "surf/price=15"
            assert frame.data["data"] == "good"
            assert frame.data["specversion"] == "1.0"

    run(main)


def test_binary_and_structured_mode_publish_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            served(tmp_path) as (_, _, http),
            stream(http, "/v1/events", where="surf and price <= 20") as events,
        ):
            headers = {"ce-specversion": "1.0", "ce-predicate": "surf/price=1"}
            await http.post("/v1/events", headers=headers, content=b"\xff\x00")
            said = {"specversion": "1.0", "predicate": "surf/price=2", "data": {"a": [1]}}
            await http.post("/v1/events", headers=STRUCTURED, json=said)
            said = {"specversion": "1.0", "predicate": "surf/price=3", "data_base64": "/wA="}
            await http.post("/v1/events", headers=STRUCTURED, json=said)
            binary, structured, base64 = [(await anext(events)).data for _ in range(3)]
            assert binary["data_base64"] == base64["data_base64"] == "/wA="
            assert structured["data"] == '{"a":[1]}'

    run(main)


@pytest.mark.parametrize("by", ["header", "cloudevent"])
def test_a_repeated_publication_is_the_same_event(tmp_path: Path, by: str) -> None:
    async def main() -> None:
        async with (
            served(tmp_path) as (_, _, http),
            stream(http, "/v1/events", filter="surf") as events,
        ):
            said = {"specversion": "1.0", "predicate": "surf", "data": "once"}
            headers = dict(STRUCTURED)
            if by == "header":
                headers["Idempotency-Key"] = "order-17"
            else:
                said |= {"source": "/shop", "id": "17"}
            answers = [await http.post("/v1/events", headers=headers, json=said) for _ in range(3)]
            assert len({answer.json()["id"] for answer in answers}) == 1
            await publish(http, "surf", "after")
            assert [(await anext(events)).data["data"] for _ in range(2)] == ["once", "after"]
            said["data"] = "another"
            conflict = await http.post("/v1/events", headers=headers, json=said)
            assert conflict.status_code == httpx.codes.UNPROCESSABLE_ENTITY
            named = (
                "Idempotency-Key 'order-17'" if by == "header" else "id '17' of the source '/shop'"
            )
            assert named in conflict.json()["detail"]

    run(main)


def test_a_batch_publishes_all_of_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            served(tmp_path) as (_, _, http),
            stream(http, "/v1/events", filter="surf") as events,
        ):
            batch = [
                {"specversion": "1.0", "predicate": "surf", "data": str(number)}
                for number in range(5)
            ]
            headers = {"content-type": "application/cloudevents-batch+json"}
            answer = await http.post("/v1/events", headers=headers, json=batch)
            assert len(answer.json()) == len(batch)
            assert [(await anext(events)).data["data"] for _ in batch] == list("01234")

    run(main)


def test_a_batch_with_a_malformed_event_publishes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            served(tmp_path) as (_, _, http),
            stream(http, "/v1/events", filter="surf") as events,
        ):
            batch = [
                {"specversion": "1.0", "predicate": text, "data": text}
                for text in ("surf", "surf/price=[", "surf")
            ]
            headers = {"content-type": "application/cloudevents-batch+json"}
            answer = await http.post("/v1/events", headers=headers, json=batch)
            assert answer.status_code == httpx.codes.BAD_REQUEST
            detail = answer.json()["detail"]
            assert detail.startswith("event 2 of 3: predicate: column ")
            assert detail.endswith("none is published")
            await publish(http, "surf", "after")
            assert (await anext(events)).data["data"] == "after"

    run(main)


def test_a_batch_says_how_far_it_came(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (_, _, http):
            batch = [
                {"specversion": "1.0", "predicate": "surf", "source": "x", "id": "1", "data": data}
                for data in ("one", "other")
            ]
            headers = {"content-type": "application/cloudevents-batch+json"}
            answer = await http.post("/v1/events", headers=headers, json=batch)
            assert answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY
            detail = answer.json()["detail"]
            assert detail.startswith("event 2 of 2: ")
            assert detail.endswith("published before it: 1; send the others again")

    run(main)


def test_history_comes_first_then_a_mark_then_live_events(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (_, _, http):
            for number in range(3):
                await publish(http, "surf", f"old {number}")
            async with stream(http, "/v1/events", filter="surf", since="1h") as events:
                stored = [await anext(events) for _ in range(4)]
                await publish(http, "surf", "new")
                live = await anext(events)
            assert [frame.data.get("data") for frame in stored[:3]] == ["old 0", "old 1", "old 2"]
            assert stored[3] == Frame(None, "end-of-stored", {"events": 3, "is_whole": True})
            assert live.data["data"] == "new"
            async with stream(http, "/v1/events", after=stored[1].id, filter="surf") as events:
                assert (await anext(events)).data["data"] == "old 2"

    run(main)


def test_a_hundred_reconnects_lose_and_repeat_nothing(tmp_path: Path) -> None:
    count = 300

    async def main() -> None:
        async with served(tmp_path) as (_, _, http), trio.open_nursery() as nursery:
            got: list[str] = []
            first = trio.Event()

            async def send() -> None:
                await first.wait()
                for number in range(count):
                    await publish(http, "surf", str(number))

            nursery.start_soon(send)
            after: str | None = None
            connections = 0
            while len(got) < count:
                connections += 1
                async with stream(http, "/v1/events", after=after, filter="surf") as events:
                    first.set()
                    for _ in range(min(3, count - len(got))):
                        frame = await anext(events)
                        assert frame.kind is None, frame
                        after = frame.id
                        got.append(frame.data["data"])
            assert connections >= 100
            assert got == [str(number) for number in range(count)]

    run(main)


def test_a_slow_reader_is_disconnected_with_a_reason_and_resumes_without_loss(
    tmp_path: Path,
) -> None:
    limits = StreamLimits(lag_count_max=20)
    patient = ConnectionLimits(write_s_max=600)
    count, text = 200, "x" * 60_000  # More than the buffers of a connection hold.

    async def main() -> None:
        async with served(tmp_path, limits=limits, connections=patient) as (_, _, http):
            got: list[Frame] = []
            async with stream(http, "/v1/events", filter="surf") as events:
                for number in range(count):
                    await publish(http, f"surf/number={number}", text)
                got += [frame async for frame in events]
            assert got[-1].kind == "closed"
            assert "too slow" in got[-1].data["reason"]
            got.pop()
            async with stream(http, "/v1/events", after=got[-1].id, filter="surf") as events:
                got += [await anext(events) for _ in range(count - len(got))]
            numbers = [frame.data["predicate"] for frame in got]
            assert numbers == [f"surf/number={number}" for number in range(count)]

    run(main)


def test_streams_are_told_that_the_node_ends(tmp_path: Path) -> None:
    last: list[Frame] = []

    async def read(events: AsyncIterator[Frame]) -> None:
        last.append([frame async for frame in events][-1])

    async def main() -> None:
        async with (
            Node(data=tmp_path, listen=[LOOPBACK]) as node,
            AsyncExitStack() as streams,
            trio.open_nursery() as readers,
        ):
            gateway = Gateway(node, Endpoint("127.0.0.1", 0))
            async with trio.open_nursery() as serving:
                await serving.start(gateway.run)
                async with httpx.AsyncClient(base_url=f"http://{gateway.at}", timeout=60) as http:
                    made = await http.post("/v1/subscriptions", json={"filter": "sailing"})
                    kept = f"/v1/subscriptions/{made.json()['subscription']}/events"
                    for path, query in (("/v1/events", {"filter": "surf"}), (kept, {})):
                        opening = stream(http, path, **query)
                        readers.start_soon(read, await streams.enter_async_context(opening))
                serving.cancel_scope.cancel()

    run(main)
    assert [frame.kind for frame in last] == ["closed", "closed"]
    assert all("the node is ending" in frame.data["reason"] for frame in last)


def test_an_outdated_position_is_told(tmp_path: Path) -> None:
    limits = StreamLimits(journal_event_count_max=5)

    async def main() -> None:
        async with served(tmp_path, limits=limits) as (_, _, http):
            async with stream(http, "/v1/events", filter="surf") as events:
                await publish(http, "surf", "0")
                position = (await anext(events)).id
                for number in range(1, 11):
                    await publish(http, "surf", str(number))
            async with stream(http, "/v1/events", after=position, filter="surf") as events:
                gap = await anext(events)
                assert (gap.kind, gap.data["missed"]) == ("gap", 5)
                assert (await anext(events)).data["data"] == "6"
            unknown = "live-000000000000-7-1700000000000000"
            async with stream(http, "/v1/events", after=unknown, filter="surf") as events:
                gap = await anext(events)
                assert (gap.kind, gap.data["missed"]) == ("gap", None)
                assert [(await anext(events)).data["data"] for _ in range(11)] == [
                    str(number) for number in range(11)
                ]
                assert (await anext(events)).kind == "end-of-stored"

    run(main)


def test_many_listeners_share_one_subscription_and_one_encoding(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (node, _, http), trio.open_nursery() as nursery:
            ready = 0
            got: list[str] = []

            async def listen() -> None:
                nonlocal ready
                async with stream(http, "/v1/events", filter="surf") as events:
                    ready += 1
                    got.append((await anext(events)).data["data"])

            for _ in range(20):
                nursery.start_soon(listen)
            while ready < 20:
                await trio.sleep(0.01)
            assert len(await node.subscriptions()) == 1
            await publish(http, "surf", "for all")
            while len(got) < 20:
                await trio.sleep(0.01)
            assert set(got) == {"for all"}

    run(main)


BAD = [
    ({"filter": "surf[[["}, "filter"),
    ({"filter": "surf", "where": "surf"}, "either"),
    ({}, "either"),
    ({"filter": "surf", "limit": "1"}, "no 'limit'; allowed are: filter, where, since, last"),
    ({"filter": "surf", "sinc": "1h"}, "did you mean since?"),
    ({"filter": "surf", "last": "0"}, "last: expected a whole number from 1 to 100,000"),
    ({"filter": "surf", "last": "bogus"}, "last: expected a whole number from 1 to 100,000"),
    ({"filter": "surf", "since": "yesterday"}, "'yesterday' is neither an event's id, nor a time"),
    ({"filter": "surf", "since": "2999-01-01"}, "in the future"),
]


@pytest.mark.parametrize(
    ("protocol", "status"),
    [
        ("scoutsubs", httpx.codes.CONFLICT),
        ("floodsub", httpx.codes.NOT_IMPLEMENTED),
    ],
)
def test_a_stream_that_cannot_begin_leaves_no_subscription(
    protocol: str, status: int, tmp_path: Path
) -> None:
    """The node finds out while it subscribes that it has no history of this kind."""

    async def main() -> None:
        async with served(tmp_path, protocol=protocol) as (node, _, http):
            unknown = {"filter": "surf", "since": "9f86d081884c7d65-1767225600-3"}
            answer = await http.get("/v1/events", params=unknown)
            assert answer.status_code == status, answer.text
            with trio.fail_after(10):
                while await node.subscriptions():
                    await trio.sleep(0.01)

    run(main)


def test_bad_requests_get_problems_that_name_the_place(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (_, _, http):
            for query, place in BAD:
                answer = await http.get("/v1/events", params=query)
                assert answer.status_code == httpx.codes.BAD_REQUEST, query
                assert answer.headers["content-type"] == "application/problem+json"
                assert place in answer.json()["detail"]
            answer = await http.post("/v1/events", content=b"no predicate")
            assert answer.status_code == httpx.codes.BAD_REQUEST
            assert "ce-predicate" in answer.json()["detail"]
            query = {"predicate": "surf", "wait": "foo"}
            answer = await http.post("/v1/events", params=query, content=b"")
            assert "wait: expected one of all, nothing, rendezvous" in answer.json()["detail"]
            query = {"predicate": "surf", "replicas_min": "2"}
            answer = await http.post("/v1/events", params=query, content=b"")
            assert answer.status_code == httpx.codes.CONFLICT
            assert "do not publish it again" in answer.json()["reason"]
            state = await http.get(f"/v1/events/{answer.json()['id']}")
            assert state.json()["state"] in ("acknowledged", "confirmed")

    run(main)
