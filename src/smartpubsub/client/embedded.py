"""A node in a thread of this process, for programs that do not run on trio.

The program is a client of the node, over pairs of sockets.

    with SyncNode(data="~/.smartpubsub") as node:
        with node.subscribe("portugal/weather") as events:
            node.publish("portugal/weather/temp=24", b"...")
            print(events.get(timeout_s=5))
"""

from __future__ import annotations

import socket
import threading
from contextlib import AsyncExitStack, suppress
from inspect import Signature
from typing import TYPE_CHECKING, Any, ClassVar

import anyio.to_thread
import trio

from smartpubsub.client.async_socket import AsyncNetwork, adopted, attached
from smartpubsub.client.blocking import BlockingClient
from smartpubsub.client.blocking_socket import BlockingNetwork, BlockingStream
from smartpubsub.client.client import Client
from smartpubsub.client.lines import LineTransport
from smartpubsub.node.api.node import Node, node_signature
from smartpubsub.node.api.payloads import JSON, Serializer
from smartpubsub.node.configuration import NodeConfig, NodeOptions
from smartpubsub.node.control.server import Control
from smartpubsub.node.errors import NodeClosedError

if TYPE_CHECKING:
    from anyio.abc import UNIXSocketStream
    from typing_extensions import Unpack

NAME = "the node"


class NodeThread:
    """A node in its own thread, to which other threads connect."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._thread = threading.Thread(target=self._run, name="smartpubsub", daemon=True)
        self._is_ready = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._clients: trio.Nursery
        self._stopping: trio.Event
        self._error: BaseException | None = None

    def start(self) -> None:
        """Start the node, and wait until it has joined the network."""
        self._thread.start()
        self._is_ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    def stop(self) -> None:
        """Stop the node, and wait until it has stopped."""
        token, self._token = self._token, None
        if token is not None:
            with suppress(trio.RunFinishedError):  # The node may have stopped already.
                token.run_sync_soon(self._stopping.set)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        """Stop a node whose start has failed or is no longer wanted; raise no error."""
        if self._thread.ident is not None:
            self._is_ready.wait()
            with suppress(BaseException):  # `start` has raised it.
                self.stop()

    def connect(self) -> socket.socket:
        """Open a connection to the node."""
        if self._token is None:
            raise NodeClosedError("the node is not running; use it inside its 'with' block")
        near, far = socket.socketpair()
        self._token.run_sync_soon(self._serve, far)
        return near

    def _serve(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(connected))
        self._clients.start_soon(Control(self._node).serve_one, stream)

    def _run(self) -> None:
        try:
            trio.run(self._live)
        except BaseException as error:  # Any error has to reach the thread that waits.
            self._error = error
        finally:
            self._token = None
            self._is_ready.set()

    async def _live(self) -> None:
        self._stopping = trio.Event()
        async with self._node, trio.open_nursery() as self._clients:
            self._token = trio.lowlevel.current_trio_token()
            self._is_ready.set()
            await self._stopping.wait()
            self._clients.cancel_scope.cancel()


class _BlockingPairs(BlockingNetwork):
    def __init__(self, thread: NodeThread) -> None:
        self.name = NAME
        self._thread = thread

    async def connect(self) -> BlockingStream:
        return BlockingStream(self._thread.connect())


class SyncNode(BlockingClient):
    """A node with blocking methods."""

    __signature__: ClassVar[Signature]

    def __init__(
        self,
        *,
        config: NodeConfig | None = None,
        serializer: Serializer = JSON,
        **options: Unpack[NodeOptions],
    ) -> None:
        self._thread = NodeThread(Node(config=config, **options))
        super().__init__(LineTransport(_BlockingPairs(self._thread)), serializer)

    def __enter__(self) -> SyncNode:
        self._thread.start()
        try:
            self.attach()
        except BaseException:
            self._thread.abandon()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()
        self._thread.stop()


class AsyncioNode(Client):
    """A node for programs on asyncio; the node itself runs on trio."""

    __signature__: ClassVar[Signature]

    def __init__(
        self,
        *,
        config: NodeConfig | None = None,
        serializer: Serializer = JSON,
        **options: Unpack[NodeOptions],
    ) -> None:
        super().__init__(serializer)
        self._thread = NodeThread(Node(config=config, **options))
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> AsyncioNode:
        async def connect() -> UNIXSocketStream:
            return await adopted(self._thread.connect())

        try:
            await anyio.to_thread.run_sync(self._thread.start)
            transport = LineTransport(AsyncNetwork(NAME, connect))
            await self._stack.enter_async_context(attached(self, transport))
        except BaseException:  # A program may have cancelled the start.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._thread.abandon)
            raise
        return self

    async def __aexit__(self, *raised: Any) -> None:
        try:
            await self._stack.__aexit__(*raised)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._thread.stop)


SyncNode.__signature__ = AsyncioNode.__signature__ = node_signature()
