"""Clients and pages that attack a gateway: none ends it, holds it up, or makes it take memory."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ResponseReceived
from trio_websocket import ConnectionClosed, WebSocketConnection, open_websocket_url

from smartpubsub import Predicate
from smartpubsub.gateway import access, control, operations, topics
from smartpubsub.gateway.cloudevents import from_entry
from smartpubsub.gateway.connections import ConnectionLimits
from smartpubsub.gateway.operations import Scope
from smartpubsub.gateway.server import Gateway
from smartpubsub.gateway.sources import FilterSource
from smartpubsub.gateway.streams import BATCH_BYTES_MAX, Item, StreamLimits, Streams
from smartpubsub.gateway.tokens import TokenFile
from smartpubsub.protocols.car import car_sections
from tests.gateway.serving import publish, served
from tests.node.hosts import run

STREAM = b"GET /v1/events?filter=surf HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPGRADE = (
    b"GET /v1/socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
SUBSCRIBE = b'{"type":"subscribe","id":"a","filter":"surf"}'
SUBSCRIBE_FRAME = bytes((0x81, 0x80 | len(SUBSCRIBE), 0, 0, 0, 0)) + SUBSCRIBE
PAYLOAD = "x" * 500_000
PAYLOADS_THAT_FILL_BUFFERS = 16


async def connected(gateway: Gateway, request: bytes) -> trio.SocketStream:
    """A client that reads nothing beyond the first answer, with little room in its buffer."""
    client = trio.SocketStream(trio.socket.socket())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    await client.socket.connect(("127.0.0.1", gateway.at.port))
    await client.send_all(request)
    assert await client.receive_some(1)
    return client


async def until_streams(http: httpx.AsyncClient, count: int) -> None:
    """Wait until the node has so many subscriptions with a reader."""
    while len((await http.get("/v1/subscriptions")).json()) != count:
        await trio.sleep(0.02)


async def is_cut(client: trio.SocketStream) -> bool:
    """Read what is left; whether the connection ends then."""
    try:
        while await client.receive_some():
            pass
    except trio.BrokenResourceError:
        pass
    return True


@pytest.mark.parametrize("request_", [STREAM, UPGRADE + SUBSCRIBE_FRAME], ids=["sse", "socket"])
def test_a_client_that_does_not_read_keeps_no_node_from_ending(
    request_: bytes, tmp_path: Path
) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:

            async def let_go(client: trio.SocketStream) -> None:
                await trio.sleep(30)
                gave_up.append(True)
                await client.aclose()

            gave_up: list[bool] = []
            async with served(tmp_path) as (_, gateway, http):
                client = await connected(gateway, request_)
                await until_streams(http, 1)
                for _ in range(PAYLOADS_THAT_FILL_BUFFERS):
                    await publish(http, "surf", PAYLOAD)
                nursery.start_soon(let_go, client)
            assert not gave_up
            await client.aclose()
            nursery.cancel_scope.cancel()

    run(main)


def test_a_client_that_does_not_read_is_cut_in_time(tmp_path: Path) -> None:
    async def main() -> None:
        limits = ConnectionLimits(write_s_max=0.5)
        async with served(tmp_path, connections=limits) as (_, gateway, http):
            client = await connected(gateway, STREAM)
            await until_streams(http, 1)
            for _ in range(PAYLOADS_THAT_FILL_BUFFERS):
                await publish(http, "surf", PAYLOAD)
            await trio.sleep(2 * limits.write_s_max)
            with trio.fail_after(30):
                assert await is_cut(client)
            await client.aclose()

    run(main)


def test_unsent_answers_share_a_limit_and_those_who_read_keep_theirs(tmp_path: Path) -> None:
    async def main() -> None:
        limits = ConnectionLimits(unsent_bytes_max=400_000)
        async with served(tmp_path, connections=limits) as (_, gateway, http):
            client = await connected(gateway, STREAM)
            await until_streams(http, 1)
            for _ in range(PAYLOADS_THAT_FILL_BUFFERS):
                await publish(http, "surf", PAYLOAD)
            reader = await connected(gateway, STREAM.replace(b"surf", b"surf&last=4"))
            received = 0
            with trio.fail_after(60):
                while received < 4 * len(PAYLOAD):
                    received += len(await reader.receive_some())
                assert await is_cut(client)
            await client.aclose()
            await reader.aclose()

    run(main)


def test_connections_have_a_limit_and_no_address_has_all(tmp_path: Path) -> None:
    async def main() -> None:
        limits = ConnectionLimits(connection_count_max=8)
        async with served(tmp_path, connections=limits) as (_, gateway, _http):
            idle = [await trio.open_tcp_stream("127.0.0.1", gateway.at.port) for _ in range(6)]
            refused = await trio.open_tcp_stream("127.0.0.1", gateway.at.port)
            with trio.fail_after(10):
                assert await refused.receive_some() == b""
            await idle.pop().aclose()
            with trio.fail_after(10):
                while True:
                    async with await trio.open_tcp_stream("127.0.0.1", gateway.at.port) as next_one:
                        try:
                            await next_one.send_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
                            if b"HTTP" in await next_one.receive_some():
                                break
                        except trio.BrokenResourceError:
                            pass
            for client in (*idle, refused):
                await client.aclose()
            assert gateway.failure_count == 0

    run(main)


def test_a_body_of_unknown_length_is_too_long_as_any_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (_, gateway, _http):
            http = H2Connection(H2Configuration(client_side=True))
            http.initiate_connection()
            client = await trio.open_tcp_stream("127.0.0.1", gateway.at.port)
            names = {":method": "POST", ":path": "/v1/events?predicate=surf"}
            names |= {":scheme": "http", ":authority": "localhost"}
            http.send_headers(1, [*names.items()])
            sent, answered = 0, False
            with trio.fail_after(60):
                while not answered and sent < 2 * operations.BODY_BYTES_MAX:
                    size = min(http.local_flow_control_window(1), 16_384)
                    if size:
                        http.send_data(1, bytes(size))
                        sent += size
                    await client.send_all(http.data_to_send())
                    if size:
                        continue
                    for event in http.receive_data(await client.receive_some()):
                        if isinstance(event, ResponseReceived):
                            assert dict(event.headers or ())[b":status"] == b"413"
                            answered = True
            assert answered
            await client.aclose()

    run(main)


def test_a_body_comes_in_time_and_one_that_ends_early_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(operations, "BODY_S_MAX", 0.2)
    request = b"POST /v1/events?predicate=surf HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"

    async def main() -> None:
        async with served(tmp_path) as (_, gateway, _http):
            async with await trio.open_tcp_stream("127.0.0.1", gateway.at.port) as client:
                await client.send_all(request + b"\r\nslow")
                with trio.fail_after(10):
                    assert b" 408 " in await client.receive_some()
            async with await trio.open_tcp_stream("127.0.0.1", gateway.at.port) as client:
                await client.send_all(request + b"\r\nshort")
                await client.send_eof()
                with trio.fail_after(10):
                    while await client.receive_some():
                        pass

    with caplog.at_level(logging.WARNING):
        run(main)
    assert [r.getMessage() for r in caplog.records if "gateway" in r.name] == []


def test_pages_of_other_origins_open_no_streams(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (node, gateway, http):
            await http.post("/v1/subscriptions", json={"filter": "surf"})
            foreign = [
                {"Origin": "https://evil.example"},
                {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
                {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
            ]
            for headers in foreign:
                for path in ("/v1/subscriptions/1/events", "/v1/events?filter=tide", "/v1/peers"):
                    answer = await http.get(path, headers=headers)
                    assert answer.status_code == httpx.codes.FORBIDDEN
            (kept,) = await node.subscriptions()
            assert not kept.is_taken
            own = {"Origin": f"http://{gateway.at}", "Sec-Fetch-Site": "same-origin"}
            assert (await http.get("/v1/peers", headers=own)).status_code == httpx.codes.OK
            typed = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}
            assert (await http.get("/v1/peers", headers=typed)).status_code == httpx.codes.OK
            followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
            assert (await http.get("/", headers=followed)).status_code == httpx.codes.OK

    run(main)


@asynccontextmanager
async def session(gateway: Gateway) -> AsyncIterator[WebSocketConnection]:
    async with open_websocket_url(f"ws://{gateway.at}/v1/control") as opened:
        await opened.send_message('{"session":null,"received":0}')
        await opened.get_message()
        yield opened


async def asked(socket: WebSocketConnection, **request: Any) -> dict[str, Any]:
    await socket.send_message(json.dumps(request))
    answer = json.loads(await socket.get_message())
    assert isinstance(answer, dict)
    return answer


async def asked_for_ever(socket: WebSocketConnection, **request: Any) -> None:
    while True:
        await asked(socket, id=1, **request)


# When the server closes first, trio-websocket leaves its socket to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_session_that_acknowledges_nothing_ends_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "ALL_WAITING_BYTES_MAX", 100_000)
    monkeypatch.setattr(control, "SHARE_BYTES", 10_000)

    async def main() -> None:
        async with served(tmp_path) as (_, gateway, _http), session(gateway) as honest:
            assert "ok" in await asked(honest, id=1, do="info")
            async with session(gateway) as hostile:
                with trio.fail_after(60), pytest.raises(ConnectionClosed):
                    await asked_for_ever(hostile, do="metrics")
            assert "ok" in await asked(honest, id=2, do="info")

    run(main)


# When the server closes first, trio-websocket leaves its socket to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_message_on_a_socket_is_a_failure_of_the_gateway(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    last = json.dumps({"type": "subscribe", "id": "a", "filter": "surf", "last": 10**30})

    async def main() -> None:
        async with served(tmp_path, requests_per_s_max=20) as (node, gateway, _http):
            for path, messages in (
                ("/v1/control", (b"\x00",)),
                ("/v1/control", ('{"session":null,"received":0}', b"\x00")),
                ("/v1/control", ('{"session":null,"received":0}', '{"end":true}', '{"id":1}')),
                ("/v1/socket", (b"\x00",)),
                ("/v1/socket", (last, *(SUBSCRIBE.decode() for _ in range(100)))),
            ):
                with trio.fail_after(10):
                    async with open_websocket_url(f"ws://{gateway.at}{path}") as opened:
                        try:
                            for message in messages:
                                await opened.send_message(message)
                            while True:
                                await opened.get_message()
                        except ConnectionClosed:
                            pass
            await node.publish("surf", b"still here")  # The rate of this client is used up.

    with caplog.at_level(logging.WARNING):
        run(main)
    assert [r.getMessage() for r in caplog.records if "gateway" in r.name] == []


@pytest.mark.parametrize("what", ["history", "export"])
def test_the_events_of_a_topic_are_written_as_the_client_reads_them(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight clients that did not read a topic of 30 MB cost 145 MB."""
    written: list[int] = []

    def entry(*arguments: Any) -> bytes:
        written.append(len(written))
        return from_entry(*arguments)

    def sections(*arguments: Any) -> Iterator[bytes]:
        for section in car_sections(*arguments):
            written.append(len(written))
            yield section

    monkeypatch.setattr(topics, "from_entry", entry)
    monkeypatch.setattr(topics, "car_sections", sections)

    async def main() -> None:
        async with served(tmp_path) as (node, gateway, http):
            topic = await node.create_topic("beach")
            for _ in range(2 * PAYLOADS_THAT_FILL_BUFFERS):
                await topic.publish(PAYLOAD.encode())
            path = f"/v1/topics/{topic.id}/{what}"
            request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            client = await connected(gateway, request)
            await http.get("/v1/peers")  # The gateway has other work, and time to write more.
            assert 1 <= len(written) < 2 * PAYLOADS_THAT_FILL_BUFFERS
            await client.aclose()
            answer = await http.get(path)
            assert len(answer.content) > 2 * PAYLOADS_THAT_FILL_BUFFERS * len(PAYLOAD)
            if what == "history":
                assert answer.json().keys() == {"events", "missing", "dropped", "silent_keepers"}

    run(main)


@pytest.mark.parametrize(
    ("query", "resume"),
    [
        ({"since": "yesterday"}, ""),
        ({"since": "9f86d081884c7d65-1"}, ""),
        ({"since": "1h", "last": "3"}, ""),
        ({}, "past-nonsense"),
        ({}, "live-1"),
    ],
)
def test_a_stream_that_begins_nowhere_leaves_no_subscription(
    query: dict[str, str], resume: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with served(tmp_path) as (node, _, http):
            topic = await node.create_topic("beach")
            for path, filter in (("/v1/events", "surf"), (f"/v1/topics/{topic.id}/events", None)):
                params = query if filter is None else {"filter": filter, **query}
                headers = {"Last-Event-ID": resume} if resume else {}
                answer = await http.get(path, params=params, headers=headers)
                assert answer.status_code == httpx.codes.BAD_REQUEST
            assert await node.subscriptions() == []

    run(main)


def test_a_listener_gets_few_bytes_at_once(tmp_path: Path) -> None:
    """It cost 57 MB to hold 20 MB of history for a client that did not read."""

    async def main() -> None:
        async with served(tmp_path) as (node, _, http), trio.open_nursery() as nursery:
            streams = Streams()
            await nursery.start(streams.run)
            for _ in range(6):
                await publish(http, "surf", PAYLOAD[:100_000])
            source = FilterSource(node, Predicate.parse("surf"))
            async with streams.listen(source, last=6) as past, streams.listen(source) as live:
                for _ in range(6):
                    await publish(http, "surf", PAYLOAD[:100_000])
                for listener in (past, live):
                    items = [i for i in await listener.next() if isinstance(i, Item)]
                    assert 1 < len(items) < 6
                    assert sum(len(i.json) for i in items[:-1]) < BATCH_BYTES_MAX
            nursery.cancel_scope.cancel()

    run(main)


# When the server closes first, trio-websocket leaves its socket to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_token_that_is_revoked_reads_no_open_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "RECHECK_S", 0.1)
    monkeypatch.setattr(control, "TIDY_S", 0.1)
    tokens = TokenFile(tmp_path)
    token = tokens.create("thief", [Scope.READ], None)
    header = f"Authorization: Bearer {token}\r\n\r\n".encode()
    limits = StreamLimits(keep_alive_s=0.1)

    async def main() -> None:
        async with served(tmp_path, at="0.0.0.0", limits=limits) as (_, gateway, _http):
            place = f"ws://127.0.0.1:{gateway.at.port}"
            one_answer = STREAM.replace(b"HTTP/1.1", b"HTTP/1.0")
            stream = await connected(gateway, one_answer.removesuffix(b"\r\n") + header)
            headers = [(b"Authorization", f"Bearer {token}".encode())]
            async with (
                open_websocket_url(f"{place}/v1/socket") as socket,
                open_websocket_url(f"{place}/v1/control", extra_headers=headers) as session,
            ):
                await socket.send_message(json.dumps({"type": "authenticate", "token": token}))
                await socket.send_message(SUBSCRIBE.decode())
                assert "subscribed" in await socket.get_message()
                await session.send_message('{"session":null,"received":0}')
                await session.get_message()
                assert "ok" in await asked(session, id=1, do="subscribe", predicate="surf")
                tokens.revoke("thief")
                with trio.fail_after(30):
                    assert "not known" in await socket.get_message()
                    with pytest.raises(ConnectionClosed):
                        await session.get_message()
                    assert await is_cut(stream)
            await stream.aclose()

    run(main)
