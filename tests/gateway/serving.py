"""A node with a gateway, in this process, and readers of its streams."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import trio

from smartpubsub import Node
from smartpubsub.gateway.connections import ConnectionLimits
from smartpubsub.gateway.server import Gateway
from smartpubsub.gateway.streams import StreamLimits
from smartpubsub.node.config_values import Endpoint
from tests.node.hosts import LOOPBACK


class Served(NamedTuple):
    node: Node
    gateway: Gateway
    http: httpx.AsyncClient


class Frame(NamedTuple):
    """One event of a stream."""

    id: str | None
    kind: str | None
    data: Any


@asynccontextmanager
async def served(
    folder: Path,
    *,
    at: str = "127.0.0.1",
    port: int = 0,
    protocol: str = "scoutsubs",
    limits: StreamLimits | None = None,
    connections: ConnectionLimits | None = None,
    hosts: tuple[str, ...] = (),
    requests_per_s_max: int = 1_000_000,
) -> AsyncIterator[Served]:
    async with (
        Node(data=folder, listen=[LOOPBACK], protocol=protocol) as node,
        trio.open_nursery() as nursery,
    ):
        gateway = Gateway(
            node,
            Endpoint(at, port),
            limits=limits,
            connections=connections,
            hosts=hosts,
            requests_per_s_max=requests_per_s_max,
        )
        await nursery.start(gateway.run)
        url = f"http://127.0.0.1:{gateway.at.port}"
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
            yield Served(node, gateway, http)
        nursery.cancel_scope.cancel()


@contextmanager
def gateway_in_thread(folder: Path, port: int = 0) -> Iterator[str]:
    """A gateway in another thread, for clients that block."""
    started = threading.Event()
    url: list[str] = []
    end: list[tuple[trio.lowlevel.TrioToken, trio.Event]] = []

    async def main() -> None:
        async with served(folder, port=port) as (_, gateway, _http):
            end.append((trio.lowlevel.current_trio_token(), trio.Event()))
            url.append(f"http://{gateway.at}")
            started.set()
            await end[0][1].wait()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    assert started.wait(60)
    try:
        yield url[0]
    finally:
        token, event = end[0]
        token.run_sync_soon(event.set)
        thread.join()


class Reader:
    """Reads the frames of a stream as they come.

    It speaks HTTP/1.0, which ends a body with the connection.
    """

    def __init__(self, connection: trio.SocketStream) -> None:
        self._connection = connection
        self._received = b""

    async def head(self) -> str:
        return (await self._until(b"\r\n\r\n") or b"").decode()

    def __aiter__(self) -> Reader:
        return self

    async def __anext__(self) -> Frame:
        while (text := await self._until(b"\n\n")) is not None:
            fields = dict(line.partition(": ")[::2] for line in text.decode().split("\n"))
            if "data" in fields:
                return Frame(fields.get("id"), fields.get("event"), json.loads(fields["data"]))
        raise StopAsyncIteration

    async def _until(self, mark: bytes) -> bytes | None:
        while mark not in self._received:
            if not (piece := await self._connection.receive_some()):
                return None
            self._received += piece
        found, _, self._received = self._received.partition(mark)
        return found


@asynccontextmanager
async def stream(
    http: httpx.AsyncClient, path: str, after: str | None = None, **query: Any
) -> AsyncIterator[Reader]:
    url = http.base_url
    target = str(httpx.URL(path, params=query)).encode()
    resume = b"" if after is None else b"Last-Event-ID: %b\r\n" % after.encode()
    async with await trio.open_tcp_stream(url.host, url.port or 0) as connection:
        await connection.send_all(
            b"GET %b HTTP/1.0\r\nHost: localhost\r\n%b\r\n" % (target, resume)
        )
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        reader = Reader(connection)
        head = await reader.head()
        assert " 200 " in head.partition("\r\n")[0], head
        assert "text/event-stream" in head
        yield reader


async def publish(http: httpx.AsyncClient, predicate: str, data: str) -> str:
    answer = await http.post("/v1/events", params={"predicate": predicate}, content=data)
    assert answer.status_code == httpx.codes.CREATED, answer.text
    return str(answer.json()["id"])
