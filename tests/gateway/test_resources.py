"""Subscriptions, topics, groups and the node itself over HTTP."""

from __future__ import annotations

import io
from pathlib import Path

import httpx
import pytest

from smartpubsub import Node, NoTopicError
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.blocks import cid_of, cid_text
from smartpubsub.protocols.car import read_car
from smartpubsub.protocols.pulsarcast import descriptor_search
from tests.gateway.serving import publish, served, stream
from tests.node.hosts import LOOPBACK, eventually, run


def test_a_kept_subscription_waits_for_its_reader_and_its_acknowledgement(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (_, _, http):
            made = await http.post("/v1/subscriptions", json={"filter": "surf"})
            assert made.status_code == httpx.codes.CREATED
            place = f"/v1/subscriptions/{made.json()['subscription']}"
            ids = [await publish(http, "surf", str(number)) for number in range(3)]
            async with stream(http, f"{place}/events") as events:
                first = [await anext(events) for _ in range(2)]
                busy = await http.get(f"{place}/events")
                assert busy.status_code == httpx.codes.CONFLICT
            assert [frame.data["id"] for frame in first] == ids[:2]
            async with stream(http, f"{place}/events", after=first[0].id) as events:
                assert [(await anext(events)).data["id"] for _ in range(2)] == ids[1:]
            done = await http.post(f"{place}/acknowledgements", json={"event": ids[2]})
            assert done.status_code == httpx.codes.NO_CONTENT
            assert (await http.get(place)).json()["waiting"] == 0
            again = await http.post(f"{place}/acknowledgements", json={"event": ids[0]})
            assert again.status_code == httpx.codes.NO_CONTENT
            assert (await http.delete(place)).status_code == httpx.codes.NO_CONTENT
            gone = await http.get(place)
            assert gone.status_code == httpx.codes.NOT_FOUND
            assert "there are: none" in gone.json()["detail"]

    run(main)


def test_of_two_kept_subscriptions_with_one_filter_the_named_one_is_read_or_none(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served(tmp_path) as (node, _, http):
            await http.post("/v1/subscriptions", json={"filter": "surf"})
            async with stream(http, "/v1/subscriptions/1/events"):
                made = await http.post("/v1/subscriptions", json={"filter": "surf"})
                second = f"/v1/subscriptions/{made.json()['subscription']}"

            async def is_left() -> bool:
                return not any(info.is_taken for info in await node.subscriptions())

            await eventually(is_left)
            other = await http.get(f"{second}/events")
            assert other.status_code == httpx.codes.CONFLICT
            assert len(await node.subscriptions()) == 2
            assert await is_left()
            await http.delete("/v1/subscriptions/1")
            async with stream(http, f"{second}/events") as events:
                await publish(http, "surf", "1")
                assert (await anext(events)).data["data"] == "1"

    run(main)


def test_an_acknowledgement_of_another_event_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (_, _, http):
            made = await http.post("/v1/subscriptions", json={"filter": "surf"})
            place = f"/v1/subscriptions/{made.json()['subscription']}"
            await publish(http, "surf", "1")
            other = await publish(http, "sailing", "2")
            refused = await http.post(f"{place}/acknowledgements", json={"event": other})
            assert refused.status_code == httpx.codes.NOT_FOUND
            assert other in refused.json()["detail"]
            malformed = await http.post(f"{place}/acknowledgements", json={"event": "x"})
            assert malformed.status_code == httpx.codes.BAD_REQUEST
            assert (await http.get(place)).json()["waiting"] == 1

    run(main)


def test_a_topic_that_is_not_there_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descriptor_search, "RETRY_US", SECOND // 10)
    missing = cid_text(cid_of(b"no topic"))

    async def main() -> None:
        async with served(tmp_path, protocol="pulsarcast") as (node, _, http):
            for path in ("", "/events", "/history", "/export"):
                answer = await http.get(f"/v1/topics/{missing}{path}")
                assert answer.status_code == httpx.codes.NOT_FOUND
                assert missing in answer.json()["detail"]
            with pytest.raises(NoTopicError, match=missing):
                await node.topic(missing).publish(b"")

    run(main)


def test_a_topic_is_published_streamed_read_and_exported(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, protocol="pulsarcast") as (_, _, http):
            made = await http.post("/v1/topics", json={"name": "news", "ordered": True})
            assert made.status_code == httpx.codes.CREATED, made.text
            place = made.headers["location"]
            assert (await http.get(place)).json() == made.json()
            receipts = [
                (await http.post(f"{place}/events", content=text)).json() for text in ("a", "b")
            ]
            async with stream(http, f"{place}/events", last=10) as events:
                frames = [await anext(events) for _ in range(3)]
            assert [frame.data["data"] for frame in frames[:2]] == ["a", "b"]
            assert frames[1].data["parents"] == receipts[0]["id"]
            async with stream(http, f"{place}/events", after=frames[0].id) as events:
                assert (await anext(events)).data["data"] == "b"
            history = (await http.get(f"{place}/history", params={"last": 1})).json()
            assert [event["data"] for event in history["events"]] == ["b"]
            assert history["missing"] == []
            car = await http.get(f"{place}/export")
            assert car.headers["content-type"] == "application/vnd.ipld.car"
            _, blocks = read_car(io.BytesIO(car.content))
            exported = {cid_text(cid_of(block)) for block in blocks}
            assert {receipt["id"] for receipt in receipts} < exported
            assert (await http.get("/v1/topics/news")).json() == made.json()
            unknown = await http.get("/v1/topics/olds")
            assert unknown.status_code == httpx.codes.NOT_FOUND
            assert "'news'" in unknown.json()["detail"]

    run(main)


def test_a_group_is_created_found_and_published_in(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, protocol="fastdelivery") as (_, _, http):
            made = await http.post("/v1/groups", json={"predicate": "surf/price[0,9]"})
            assert made.status_code == httpx.codes.CREATED, made.text
            found = await http.get("/v1/groups/search", params={"predicate": "surf/price[0,5]"})
            assert [group["group"] for group in found.json()] == ["surf/price[0,9]"]
            query = {"group": "surf/price[0,9]", "predicate": "surf/price=3"}
            sent = await http.post("/v1/groups/events", params=query, content="hi")
            assert sent.status_code == httpx.codes.CREATED, sent.text
            assert (await http.get("/v1/groups")).json()[0]["is_own"]

    run(main)


def test_the_node_tells_about_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (node, _, http):
            assert (await http.get("/readyz")).json() == {"status": "ok"}
            assert (await http.get("/v1/node")).json()["peer_id"] == node.peer_id
            assert (await http.get("/v1/peers")).json() == []
            assert "smartpubsub_" in (await http.get("/metrics")).text
            query = {"filter": "price[1,2]", "event": "price=3"}
            explained = (await http.get("/v1/explain", params=query)).json()
            assert not explained["matches"]
            id = await publish(http, "price=3", "")
            answer = (
                await http.get("/v1/why", params={"event": id, "filter": "price[1,2]"})
            ).json()
            assert answer["cause"] == "not-matched"
            assert "wants price[1,2]; it has price=3" in answer["detail"]
            missing = await http.get("/v1/nothing")
            assert missing.headers["content-type"] == "application/problem+json"
            wrong = await http.delete("/v1/peers")
            assert wrong.status_code == httpx.codes.METHOD_NOT_ALLOWED
            assert "GET" in wrong.headers["allow"]

    run(main)


def test_routes_name_the_next_hop_of_each_attribute(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path / "a") as (first, _, http):
            alone = (await http.get("/v1/routes", params={"filter": "surf/price[1,2]"})).json()
            assert [(route["attribute"], route["is_own"]) for route in alone] == [
                ("surf", True),
                ("price", True),
            ]
            second = Node(data=tmp_path / "b", listen=[LOOPBACK], bootstrap=first.addresses)
            async with second:
                names = [f"topic-{number}" for number in range(30)]
                both = [
                    {
                        route.attribute
                        for name in names
                        for route in node.routes(name)
                        if route.is_own
                    }
                    for node in (first, second)
                ]
                assert both[0] | both[1] == {*names}
                assert both[0] & both[1] == set()
                (route,) = second.routes(names[0])
                assert route.closest == (first.peer_id,)
            bad = await http.get("/v1/routes")
            assert bad.status_code == httpx.codes.BAD_REQUEST

    run(main)
