"""A client over the gateway survives broken connections, and may do what its token allows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio_typing import TaskStatus

from smartpubsub import ControlError, LostNodeError, NoNodeError, connect
from smartpubsub.gateway import control
from smartpubsub.gateway.operations import Scope
from smartpubsub.gateway.tokens import TokenFile
from smartpubsub.node.control.server import Control
from tests.client.running import running_node
from tests.gateway.serving import served
from tests.node.hosts import eventually, run


class Proxy:
    """Passes connections on, and cuts them."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.direct = f"http://127.0.0.1:{port}"
        self.is_open = True
        self._open: dict[trio.SocketStream, None] = {}
        self.url = ""
        self.count = 0

    async def serve(self, *, task_status: TaskStatus[None]) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        task_status.started()
        await trio.serve_listeners(self._pass_on, listeners)

    async def _pass_on(self, near: trio.SocketStream) -> None:
        if not self.is_open:
            await near.aclose()
            return
        far = await trio.open_tcp_stream("127.0.0.1", self._port)
        self.count += 1
        self._open |= {near: None, far: None}
        async with near, far, trio.open_nursery() as nursery:
            nursery.start_soon(self._copy, near, far, nursery.cancel_scope)
            nursery.start_soon(self._copy, far, near, nursery.cancel_scope)

    async def _copy(
        self, source: trio.SocketStream, target: trio.SocketStream, scope: trio.CancelScope
    ) -> None:
        try:
            while piece := await source.receive_some():
                await target.send_all(piece)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()

    def cut(self) -> None:
        for stream in self._open:
            stream.socket.close()
        self._open.clear()

    async def cut_and_wait(self) -> None:
        before = self.count
        self.cut()
        await eventually(lambda: self.count > before)


@asynccontextmanager
async def proxied(folder: Path) -> AsyncIterator[Proxy]:
    async with served(folder) as (_, gateway, _), trio.open_nursery() as nursery:
        proxy = Proxy(gateway.at.port)
        await nursery.start(proxy.serve)
        yield proxy
        nursery.cancel_scope.cancel()


def test_a_hundred_broken_connections_lose_and_repeat_nothing(tmp_path: Path) -> None:
    cuts, count = 100, 300

    async def main() -> None:
        async with proxied(tmp_path) as proxy, connect(url=proxy.url) as node:
            async with node.subscribe("surf") as events, trio.open_nursery() as nursery:

                async def publish() -> None:
                    for number in range(count):
                        await node.publish("surf", b"%d" % number)

                nursery.start_soon(publish)
                got = []
                for number in range(count):
                    got.append((await anext(events)).payload)
                    if number % (count // cuts) == 0:
                        await proxy.cut_and_wait()
            assert got == [b"%d" % number for number in range(count)]
            assert proxy.count > cuts, "each time the client has connected again"
            assert await node.subscriptions() == []

    run(main)


def test_a_kept_subscription_goes_on_over_a_broken_connection(tmp_path: Path) -> None:
    async def main() -> None:
        async with proxied(tmp_path) as proxy, connect(url=proxy.url) as node:
            async with node.subscribe("surf", keep=True) as events:
                for number in range(20):
                    await node.publish("surf", b"%d" % number, wait="all")
                    proxy.cut()
                    assert (await anext(events)).payload == b"%d" % number
            (left,) = await node.subscriptions()
            assert (left.is_kept, left.waiting) == (True, 0)

    run(main)


def test_a_client_that_stays_away_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "LINGER_S", 0.1)
    serve_one = Control.serve_one

    async def end_slowly(served: Control, stream: trio.abc.Stream) -> None:
        await serve_one(served, stream)
        await trio.sleep_forever()

    # The client comes back while the requests of its session are still ending.
    monkeypatch.setattr(Control, "serve_one", end_slowly)

    async def main() -> None:
        async with (
            proxied(tmp_path) as proxy,
            connect(url=proxy.url) as node,
            connect(url=proxy.direct) as near,
        ):
            events = node.subscribe("surf")
            await events.open()
            proxy.is_open = False
            proxy.cut()
            while await near.subscriptions():
                await trio.sleep(0.01)
            proxy.is_open = True
            with pytest.raises(LostNodeError, match="waited too long"):
                await events.get(timeout_s=30)
            await events.close()
            await node.publish("surf")

    run(main)


def test_a_token_limits_what_a_client_may_do(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path)
    reading, publishing = (
        tokens.create(scope.value, [scope], None) for scope in (Scope.READ, Scope.PUBLISH)
    )

    async def main() -> None:
        async with served(tmp_path, at="0.0.0.0") as (_, gateway, _):
            url = f"http://127.0.0.1:{gateway.at.port}"
            with pytest.raises(ControlError, match="send a token"):
                await connect(url=url).__aenter__()
            with pytest.raises(ControlError, match="not known"):
                await connect(url=url, token="sps_wrong").__aenter__()
            async with (
                connect(url=url, token=reading) as reader,
                connect(url=url, token=publishing) as publisher,
                reader.subscribe("surf") as events,
            ):
                for wish in (reader.publish("surf"), publisher.unsubscribe(1)):
                    with pytest.raises(ControlError, match="has not the scope"):
                        await wish
                with pytest.raises(ControlError, match="has not the scope admin"):
                    await reader.subscribe("surf", keep=True).open()
                with pytest.raises(ControlError, match="has not the scope read"):
                    await publisher.subscribe("surf").open()
                receipt = await publisher.publish("surf")
                assert (await anext(events)).id == receipt.id
                tokens.revoke("read")
                with pytest.raises(ControlError, match="not known"):
                    await reader.peers()

    run(main)


def test_a_script_whose_node_is_started_again_goes_on(tmp_path: Path) -> None:
    with running_node(tmp_path) as url:
        connection = connect(url=url)
        node = connection.__enter__()
        first = node.publish("a", key="k")
    with pytest.raises(NoNodeError, match="is a node running there"):
        node.publish("a")
    with running_node(tmp_path, http=int(url.rpartition(":")[2])):
        assert node.publish("a", key="k").id == first.id
        connection.__exit__(None, None, None)
