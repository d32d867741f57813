"""A node in its own thread, for programs that do not run on trio."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import trio

from smartpubsub.node.api.node import Node
from smartpubsub.node.errors import NodeClosedError

T = TypeVar("T")


class NodeThread:
    """A node in its own thread, which other threads call."""

    def __init__(self, **options: Any) -> None:
        self.node = Node(**options)
        self.nursery: trio.Nursery
        """For tasks that end with the node."""
        self._thread = threading.Thread(target=self._run, name="smartpubsub", daemon=True)
        self._is_ready = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
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
            with suppress(trio.RunFinishedError):  # It may have stopped already.
                token.run_sync_soon(self._stopping.set)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def call(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Run an async function in the node's thread, and return its result."""
        if self._token is None:
            raise NodeClosedError("the node is not running; use it inside its 'with' block")
        return trio.from_thread.run(function, *arguments, trio_token=self._token)

    def look(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a plain function in the node's thread, and return its result."""

        async def looked() -> T:
            return function(*arguments)

        return self.call(looked)

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
        async with self.node, trio.open_nursery() as self.nursery:
            self._token = trio.lowlevel.current_trio_token()
            self._is_ready.set()
            await self._stopping.wait()
            self.nursery.cancel_scope.cancel()
