"""Connecting to a running node.

async with connect(data="~/.smartpubsub") as node:  # On asyncio or trio.
    await node.publish("portugal/weather/temp=24", b"...")

with connect() as node:  # Without an event loop.
    node.publish("portugal/weather/temp=24", b"...")
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from os import PathLike
from types import TracebackType

from smartpubsub.client.blocking import BlockingClient
from smartpubsub.client.blocking_socket import BlockingNetwork, folder_of
from smartpubsub.client.client import Client
from smartpubsub.client.lines import LineTransport
from smartpubsub.node.api.payloads import JSON, Serializer
from smartpubsub.node.errors import ControlError


class Connection:
    """A node that is to be connected to: a context manager, asynchronous or blocking."""

    def __init__(self, folder: str, serializer: Serializer) -> None:
        self._folder = folder
        self._serializer = serializer
        self._blocking: BlockingClient
        self._stack = AsyncExitStack()

    def __enter__(self) -> BlockingClient:
        transport = LineTransport(BlockingNetwork(self._folder))
        self._blocking = BlockingClient(transport, self._serializer)
        self._blocking.attach()
        return self._blocking

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._blocking.detach()

    async def __aenter__(self) -> Client:
        # Programs without an event loop need no anyio.
        from smartpubsub.client.async_socket import AsyncNetwork, attached

        client = Client(self._serializer)
        transport = LineTransport(AsyncNetwork.of_folder(self._folder))
        await self._stack.enter_async_context(attached(client, transport))
        return client

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)


def connect(
    *,
    data: str | PathLike[str] | None = None,
    url: str | None = None,
    serializer: Serializer = JSON,
) -> Connection:
    """Connect to a running node, with `async with` or with `with`.

    The node is the one that runs in the data folder `data`; by default in `$SMARTPUBSUB_DATA`, or
    in `~/.smartpubsub`. It has the methods of `Node`.
    """
    if url is not None:
        if data is not None:
            raise ControlError("data and url name two nodes; give one of them")
        raise ControlError(
            "url=: this version of the client does not speak to the HTTP gateway; name the data"
            " folder of a node on this machine, connect(data=...), or use the gateway without it"
        )
    return Connection(folder_of(data), serializer)
