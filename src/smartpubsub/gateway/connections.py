"""The connections of the gateway's clients: their number, and what clients that do not read cost.

The HTTP server protects each write against cancellation, so a client that does not read could keep
the gateway, and with it the node, from ending. Each connection therefore has a time limit for the
next piece of a write, and is cut when the gateway ends.
"""

from __future__ import annotations

import logging
import resource
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import anyio
import anyio.abc
import trio
from anycorn import Config
from anycorn.app_wrappers import ASGIWrapper
from anycorn.tcp_server import TCPServer
from anycorn.worker_context import WorkerContext
from starlette.types import ASGIApp

_RECEIVE_BYTES = 64 << 10
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ConnectionLimits:
    """The limits of the gateway's connections."""

    connection_count_max: int = 4_096
    """Of all clients, and at most three quarters of the file descriptors that the process may
    have: the node needs some too. One address has at most three quarters of the connections."""
    write_s_max: float = 30.0
    """How long the next piece of a write may take."""
    piece_bytes: int = 64 << 10
    unsent_bytes_max: int = 128 << 20
    """Of all connections; the gateway cuts those that have not read for the longest time."""

    def counts_max(self) -> tuple[int, int]:
        """The number of connections in all, and of one address."""
        descriptor_count, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        count = min(self.connection_count_max, descriptor_count * 3 // 4)
        return count, max(1, count * 3 // 4)


class Connections:
    """All connections of a gateway."""

    def __init__(self, app: ASGIApp, config: Config, limits: ConnectionLimits) -> None:
        self._app = ASGIWrapper(cast(Any, app))  # Each types ASGI its own way.
        self._config = config
        self._limits = limits
        self._open: dict[_Connection, str] = {}
        """The address of each client."""
        self._counts: Counter[str] = Counter()
        self._unsent_bytes = 0

    async def serve(self, listener: socket.socket) -> None:
        """Serve clients until this is cancelled."""
        listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(listener))]
        async with trio.open_nursery() as nursery:
            try:
                await trio.serve_listeners(self._welcome, listeners, handler_nursery=nursery)
            finally:
                for connection in self._open:
                    connection.cut()

    async def _welcome(self, stream: trio.SocketStream) -> None:
        async with stream:
            try:
                address: str = stream.socket.getpeername()[0]
            except OSError:
                return  # The client has gone.
            count_max, of_one_max = self._limits.counts_max()
            if len(self._open) >= count_max or self._counts[address] >= of_one_max:
                return
            context = WorkerContext(None)
            connection = _Connection(stream, self._limits, self._on_unsent, context)
            self._open[connection] = address
            self._counts[address] += 1
            try:
                await TCPServer(
                    self._app, self._config, context, cast(Any, {}), cast(Any, connection)
                ).run()
            except Exception:  # One connection must not end the gateway.
                _log.exception("a connection of the gateway has failed")
            finally:
                del self._open[connection]
                self._counts -= Counter((address,))

    def _on_unsent(self, change: int) -> None:
        self._unsent_bytes += change
        if change > 0 and self._unsent_bytes > self._limits.unsent_bytes_max:
            waiting = [each for each in self._open if each.unsent_bytes]
            waiting.sort(key=lambda connection: connection.read_at)
            left = self._unsent_bytes
            for connection in waiting[:-1]:
                if left <= self._limits.unsent_bytes_max:
                    return
                left -= connection.unsent_bytes
                connection.cut()


class _Connection(anyio.abc.ByteStream):
    """One connection, as the HTTP server wants it."""

    def __init__(
        self,
        stream: trio.SocketStream,
        limits: ConnectionLimits,
        on_unsent: Callable[[int], None],
        context: WorkerContext,
    ) -> None:
        self._stream = stream
        self._limits = limits
        self._on_unsent = on_unsent
        self._context = context
        self.unsent_bytes = 0
        self.read_at = trio.current_time()
        """When the client last read something."""

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {anyio.abc.SocketAttribute.raw_socket: lambda: self._stream.socket}

    def cut(self) -> None:
        """End the connection at once."""
        self._stream.socket.close()

    async def receive(self, max_bytes: int = _RECEIVE_BYTES) -> bytes:
        try:
            received = await self._stream.receive_some(max_bytes)
        except trio.ClosedResourceError:
            raise anyio.ClosedResourceError from None
        except trio.BrokenResourceError:
            received = b""
        if not received:
            # Otherwise the server keeps an idle connection for some time after its client has left.
            await self._context.terminated.set()
            raise anyio.EndOfStream
        return bytes(received)

    async def send(self, item: bytes) -> None:
        self.read_at = trio.current_time()
        self._change_unsent(len(item))
        sent = 0
        try:
            with memoryview(item) as content:
                while sent < len(item):
                    piece = content[sent : sent + self._limits.piece_bytes]
                    with trio.fail_after(self._limits.write_s_max), piece:
                        await self._stream.send_all(piece)
                        done = len(piece)
                    sent += done
                    self._change_unsent(-done)
                    self.read_at = trio.current_time()
        except trio.TooSlowError:
            self.cut()
            raise TimeoutError from None
        except trio.ClosedResourceError:
            raise anyio.ClosedResourceError from None
        except trio.BrokenResourceError:
            raise anyio.BrokenResourceError from None
        finally:
            self._change_unsent(sent - len(item))

    def _change_unsent(self, change: int) -> None:
        self.unsent_bytes += change
        self._on_unsent(change)

    async def send_eof(self) -> None:
        # Without a checkpoint: the server ends connections in tasks that are cancelled.
        self._stream.socket.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        await self._stream.aclose()
