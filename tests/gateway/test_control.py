"""The control protocol over a WebSocket, as clients that are not ours may speak it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from trio_websocket import WebSocketConnection, open_websocket_url

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
