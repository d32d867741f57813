"""Connecting to a running node.

async with connect(data="~/.smartpubsub") as node:  # On asyncio or trio.
    await node.publish("portugal/weather/temp=24", b"...")

with connect() as node:  # Without an event loop.
    node.publish("portugal/weather/temp=24", b"...")
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from os import PathLike
from typing import TYPE_CHECKING, Any

from smartpubsub.client.blocking import BlockingClient
from smartpubsub.client.blocking_socket import BlockingNetwork, folder_of
from smartpubsub.client.client import Client
from smartpubsub.client.lines import LineTransport
from smartpubsub.node.api.payloads import JSON, Serializer
from smartpubsub.node.errors import ControlError

if TYPE_CHECKING:
    from smartpubsub.client.web_socket import Place


class Connection:
    """A connection to a node: a context manager, asynchronous or blocking."""

    def __init__(self, at: str | Place, serializer: Serializer) -> None:
        self._at = at
        self._serializer = serializer
        self._blocking: BlockingClient
        self._stack = AsyncExitStack()

    def __enter__(self) -> BlockingClient:
        self._blocking = BlockingClient(self._blocking_transport(), self._serializer)
        self._blocking.attach()
        return self._blocking

    def __exit__(self, *_: object) -> None:
        self._blocking.detach()

    async def __aenter__(self) -> Client:
        # Programs without an event loop need no anyio, and programs without `url` no WebSocket.
        from smartpubsub.client.async_socket import AsyncNetwork, attached

        if isinstance(self._at, str):
            transport = LineTransport(AsyncNetwork.of_folder(self._at))
        else:
            from smartpubsub.client.async_web import AsyncWeb

            transport = LineTransport(AsyncWeb(self._at))
        client = Client(self._serializer)
        await self._stack.enter_async_context(attached(client, transport))
        return client

    async def __aexit__(self, *raised: Any) -> None:
        await self._stack.__aexit__(*raised)

    def _blocking_transport(self) -> LineTransport:
        if isinstance(self._at, str):
            return LineTransport(BlockingNetwork(self._at))
        from smartpubsub.client.blocking_web import BlockingWeb

        return LineTransport(BlockingWeb(self._at))


def connect(
    *,
    data: str | PathLike[str] | None = None,
    url: str | None = None,
    token: str | None = None,
    serializer: Serializer = JSON,
) -> Connection:
    """Connect to a running node, with `async with` or with `with`.

    The node is the one that runs in the data folder `data`; by default in `$SMARTPUBSUB_DATA`, or
    in `~/.smartpubsub`. With `url` it is the node with that HTTP gateway, on any machine, and
    `token` is the token that the gateway needs. It has the methods of `Node`.
    """
    if url is None:
        if token is not None:
            raise ControlError("a token is for a gateway; name that with url=")
        return Connection(folder_of(data), serializer)
    if data is not None:
        raise ControlError("data and url name two nodes; give one of them")
    from smartpubsub.client.web_socket import Place

    return Connection(Place.of(url, token), serializer)
