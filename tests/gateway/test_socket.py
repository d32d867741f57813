"""Streams over the WebSocket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from trio_websocket import WebSocketConnection, open_websocket_url

from smartpubsub.gateway.operations import Scope
from smartpubsub.gateway.tokens import TokenFile
from tests.gateway.serving import publish, served
from tests.node.hosts import run


async def say(socket: WebSocketConnection, **message: Any) -> None:
    await socket.send_message(json.dumps(message))


async def heard(socket: WebSocketConnection) -> dict[str, Any]:
    with trio.fail_after(60):
        content = json.loads(await socket.get_message())
    assert isinstance(content, dict)
    return content


def test_one_socket_has_many_streams(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (_, gateway, http):
            await publish(http, "surf", "old")
            async with open_websocket_url(f"ws://{gateway.at}/v1/socket") as socket:
                await say(socket, type="subscribe", id="a", filter="surf", since="1h")
                said = [await heard(socket) for _ in range(3)]
                assert [one["type"] for one in said] == ["subscribed", "event", "end-of-stored"]
                assert said[1]["event"]["data"] == "old"
                await say(socket, type="subscribe", id="b", where="tide >= 3")
                assert (await heard(socket)) == {"type": "subscribed", "id": "b"}
                await publish(http, "surf/tide=5", "both")
                both = [await heard(socket) for _ in range(2)]
                assert {one["id"] for one in both} == {"a", "b"}
                after = next(one["position"] for one in both if one["id"] == "b")
                await say(socket, type="unsubscribe", id="b")
                assert (await heard(socket)) == {
                    "type": "closed",
                    "id": "b",
                    "reason": "unsubscribed",
                }
                await publish(http, "tide=9", "missed")
                await say(socket, type="subscribe", id="c", where="tide >= 3", after=after)
                said = [await heard(socket) for _ in range(2)]
                assert said[1]["event"]["data"] == "missed"

    run(main)


def test_mistakes_are_told_and_the_socket_stays_open(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            served(tmp_path) as (_, gateway, _http),
            open_websocket_url(f"ws://{gateway.at}/v1/socket") as socket,
        ):
            await socket.send_message("no json")
            assert (await heard(socket))["type"] == "error"
            await say(socket, type="shout")
            assert (await heard(socket))["type"] == "error"
            await say(socket, type="subscribe", id="a", filter="[[")
            closed = await heard(socket)
            assert (closed["type"], closed["id"]) == ("closed", "a")
            await say(socket, type="unsubscribe", id="nobody")
            assert "open: none" in (await heard(socket))["reason"]
            await say(socket, type="subscribe", id="a", filter="surf")
            assert (await heard(socket))["type"] == "subscribed"

    run(main)


# When the server closes first, trio-websocket leaves its socket to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_socket_authenticates_with_its_first_message(tmp_path: Path) -> None:
    token = TokenFile(tmp_path).create("reader", [Scope.READ], None)

    async def main() -> None:
        async with served(tmp_path, at="0.0.0.0") as (_, gateway, _http):
            url = f"ws://127.0.0.1:{gateway.at.port}/v1/socket"
            async with open_websocket_url(url) as socket:
                await say(socket, type="authenticate", token=token)
                await say(socket, type="subscribe", id="a", filter="surf")
                assert (await heard(socket))["type"] == "subscribed"
            async with open_websocket_url(url) as socket:
                await say(socket, type="subscribe", id="a", filter="surf")
                with trio.fail_after(60):
                    while not socket.closed:
                        await trio.sleep(0.01)
                assert "authenticate" in str(socket.closed.reason)

    run(main)
