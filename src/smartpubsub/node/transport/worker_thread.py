"""A standing thread that executes one function at a time for a task.

`trio.to_thread` wakes the event loop twice for each function and checks more; for a transaction of
one event that takes about as long as the transaction.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any

import trio


class WorkerThread:
    """Runs inside `with`; one task uses it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]] | None]
        self._ended: socket.socket
        """There is a byte to read when a function has ended."""
        self._error: BaseException | None = None

    def __enter__(self) -> WorkerThread:
        self._calls = SimpleQueue()
        self._ended, ending = socket.socketpair()
        self._ended.setblocking(False)
        # A daemon thread may be in a flush when the process ends, as in a crash.
        Thread(target=self._work, args=(ending,), name=self._name, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._calls.put(None)
        self._ended.close()

    async def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Execute a function in the thread, to its end also if the task is cancelled."""
        self._calls.put((function, arguments))
        with trio.CancelScope(shield=True):
            await trio.lowlevel.wait_readable(self._ended.fileno())
        self._ended.recv(1)
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _work(self, ending: socket.socket) -> None:
        with ending:
            while (call := self._calls.get()) is not None:
                function, arguments = call
                try:
                    function(*arguments)
                except BaseException as error:  # The error belongs to the task that has called.
                    self._error = error
                del call, function, arguments
                ending.send(b"\0")
