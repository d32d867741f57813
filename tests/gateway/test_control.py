"""The control protocol over a WebSocket, as clients that are not ours may speak it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio_websocket import WebSocketConnection, open_websocket_url

from smartpubsub.gateway import control
from smartpubsub.gateway.control import _Session
from smartpubsub.gateway.operations import Scope
from smartpubsub.gateway.tokens import TokenFile
from tests.gateway.serving import Served, served
from tests.gateway.test_socket import heard, say
from tests.node.hosts import run


@asynccontextmanager
async def session(server: Served, token: str | None = None) -> AsyncIterator[WebSocketConnection]:
    headers = [] if token is None else [(b"Authorization", f"Bearer {token}".encode())]
    url = f"ws://127.0.0.1:{server.gateway.at.port}/v1/control"
    async with open_websocket_url(url, extra_headers=headers) as socket:
        await say(socket, session=None, received=0)
        assert (await heard(socket))["received"] == 0
        yield socket


def test_a_message_is_one_request(tmp_path: Path) -> None:
    token = TokenFile(tmp_path).create("reader", [Scope.READ], None)

    async def main() -> None:
        async with (
            served(tmp_path, at="0.0.0.0") as server,
            session(server, token) as socket,
        ):
            hidden = json.dumps({"id": 2, "do": "topic-create", "name": "surf"})
            await socket.send_message(f'{{"id": 1, "do": "info", "x":\n{hidden}\n}}')
            refusal = await heard(socket)
            assert (refusal["id"], "one line" in refusal["error"]) == (1, True)
            await say(socket, id=3, do="topic-list")
            assert await heard(socket) == {"id": 3, "ok": []}

    run(main)


class _Socket:
    """A WebSocket in memory."""

    def __init__(self) -> None:
        self.to_gateway, self._coming = trio.open_memory_channel[str](10)
        self._going, self.from_gateway = trio.open_memory_channel[str](10)

    async def receive_text(self) -> str:
        return await self._coming.receive()

    async def send_text(self, text: str) -> None:
        await self._going.send(text)

    async def close(self, _code: int) -> None:
        pass


def is_refused(message: bytes) -> bytes | None:
    return b"refused" if message == b"forbidden" else None


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "WAITING_BYTES_MAX", 10)


@pytest.mark.usefixtures("little_room")
def test_a_client_that_resumes_and_has_read_everything_gets_what_waits() -> None:
    async def main() -> None:
        session, socket = _Session(lambda: None), _Socket()
        fake: Any = socket
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.send_all, b"a line that is long\nshort\n")
                await trio.testing.wait_all_tasks_blocked()
                assert session.lines.sent == 1
                nursery.start_soon(session.attach, fake, 1, is_refused)
                assert await socket.from_gateway.receive() == "short"
                nursery.cancel_scope.cancel()

    run(main)


@pytest.mark.usefixtures("little_room")
def test_a_refusal_does_not_wait_for_room() -> None:
    async def main() -> None:
        session, socket = _Session(lambda: None), _Socket()
        fake: Any = socket
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.attach, fake, 0, is_refused)
                nursery.start_soon(session.send_all, b"a line that is long\nshort\n")
                assert await socket.from_gateway.receive() == "a line that is long"
                await socket.to_gateway.send("forbidden")
                assert await socket.from_gateway.receive() == "refused"
                await socket.to_gateway.send('{"received":2}')
                assert await socket.from_gateway.receive() == "short"
                nursery.cancel_scope.cancel()

    run(main)


def test_a_message_over_an_abandoned_connection_is_not_counted() -> None:
    async def main() -> None:
        session, socket = _Session(lambda: None), _Socket()
        fake: Any = socket
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.attach, fake, 0, is_refused)
            await trio.testing.wait_all_tasks_blocked()
            socket.to_gateway.send_nowait("forbidden")  # The gateway has received it,
            session.detach()  # and the client connects again.
            await trio.testing.wait_all_tasks_blocked()
            assert session.lines.received == 0

    run(main)
