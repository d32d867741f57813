"""Sockets on asyncio or trio, through anyio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from socket import socket
from typing import Protocol

import anyio
from anyio.abc import ByteStream, SocketAttribute, UNIXSocketStream

from smartpubsub.client.blocking_socket import FINISH_S_MAX, is_readable, node_name, unreachable
from smartpubsub.client.client import Client
from smartpubsub.client.transport import Transport
from smartpubsub.node.control.limits import socket_path

REQUESTS_AT_ONCE = 16
"""The open requests of one client; a node serves a limited number of connections."""
_RECEIVE_BYTES = 64 << 10
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)


class AsyncStream:
    """A connection."""

    def __init__(self, connected: ByteStream) -> None:
        self._stream = connected

    async def send(self, data: bytes) -> None:
        """Send all bytes."""
        try:
            await self._stream.send(data)
        except _GONE:
            raise BrokenPipeError from None

    async def receive(self, timeout_s: float | None) -> bytes:
        """Receive some bytes, none at the end."""
        try:
            with anyio.fail_after(timeout_s):
                return await self._stream.receive(_RECEIVE_BYTES)
        except (anyio.EndOfStream, *_GONE):
            return b""

    async def finish(self) -> None:
        """End the sending side, and wait until the peer closes."""
        # A cancelled task also has to leave its subscription.
        with anyio.move_on_after(FINISH_S_MAX, shield=True):
            try:
                await self._stream.send_eof()
                while True:
                    await self._stream.receive(_RECEIVE_BYTES)
            except (anyio.EndOfStream, OSError, *_GONE):
                pass
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        with anyio.CancelScope(shield=True):
            await self._stream.aclose()

    def is_stale(self) -> bool:
        """Whether the connection has something to read, or has ended."""
        file = self._stream.extra(SocketAttribute.raw_socket).fileno()
        return file < 0 or is_readable(file)


class Connects(Protocol):
    """Opens connections to a node."""

    async def __call__(self) -> UNIXSocketStream:
        """Open a connection."""
        ...


class Turns:
    """Limits the open requests of one client."""

    def __init__(self) -> None:
        self._turns = anyio.Semaphore(REQUESTS_AT_ONCE)

    def turn(self) -> AbstractAsyncContextManager[object]:
        """Wait until one more request may be open."""
        return self._turns


class AsyncNetwork(Turns):
    """Connects to a node, on the event loop that runs."""

    def __init__(self, name: str, connects: Connects) -> None:
        super().__init__()
        self.name = name
        self._connects = connects

    @classmethod
    def of_folder(cls, folder: str) -> AsyncNetwork:
        """Connect to the control socket of the node that runs in a data folder."""

        async def connect() -> UNIXSocketStream:
            try:
                return await anyio.connect_unix(socket_path(folder))
            except OSError as error:
                raise unreachable(folder, error) from None

        return cls(node_name(folder), connect)

    async def connect(self) -> AsyncStream:
        """Open a connection."""
        return AsyncStream(await self._connects())


@asynccontextmanager
async def attached(client: Client, transport: Transport) -> AsyncIterator[None]:
    """Use a node until the block is left; handlers run as tasks."""
    tasks = await anyio.create_task_group().__aenter__()
    try:
        await client.attach(transport, tasks.start_soon)
        yield
    finally:
        # Handlers raise no errors, so an error of the block need not come in a group.
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await client.detach()
        await tasks.__aexit__(None, None, None)


async def adopted(connected: socket) -> UNIXSocketStream:
    """Use a connected socket."""
    return await UNIXSocketStream.from_socket(connected)
