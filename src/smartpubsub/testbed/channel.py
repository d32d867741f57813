"""Values between processes of a testbed: pickled, each preceded by its length.

The sockets are pairs that only the processes of one testbed hold, so the data can be trusted.
"""

from __future__ import annotations

import pickle
import select
import socket
import struct
from typing import Any

import trio

_HEAD = struct.Struct("!Q")
_READ_BYTES = 64 << 10
_BUFFER_BYTES = 4 << 20
"""Large enough that a worker does not wait until the coordinator reads its report."""


class ClosedError(Exception):
    """The process at the other end has ended."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a channel."""
    ends = socket.socketpair()
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
    return ends


def packed(value: object) -> bytes:
    """The bytes of a value in a channel."""
    content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return _HEAD.pack(len(content)) + content


def receive(end: socket.socket) -> Any:
    """Block until the next value comes."""
    head = _received(end, _HEAD.size)
    return pickle.loads(_received(end, *_HEAD.unpack(head)))


def send_now(end: socket.socket, value: object) -> None:
    """Send a value synchronously, even on a socket of trio's."""
    rest = memoryview(packed(value))
    while rest:
        try:
            rest = rest[end.send(rest) :]
        except BlockingIOError:
            waiting = select.poll()
            waiting.register(end, select.POLLOUT)
            waiting.poll()
        except OSError:
            raise ClosedError from None


def _received(end: socket.socket, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        some = end.recv(size - len(content))
        if not some:
            raise ClosedError
        content += some
    return bytes(content)


class Channel:
    """One end of a channel in a process that runs on trio."""

    def __init__(self, end: socket.socket) -> None:
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(end))
        self._sending = trio.Lock()
        self._came = bytearray(_READ_BYTES)
        """One for all reads: others would leave holes in the heap, whose size a soak measures."""
        self._buffer = bytearray()

    async def send(self, value: object) -> None:
        """Send a value; values from several tasks are not interleaved."""
        content = packed(value)
        async with self._sending:
            try:
                await self._stream.send_all(content)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                raise ClosedError from None

    async def receive(self) -> Any:
        """The next value."""
        head = await self._take(_HEAD.size)
        return pickle.loads(await self._take(*_HEAD.unpack(head)))

    async def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            try:
                count = await self._stream.socket.recv_into(self._came)
            except (OSError, trio.ClosedResourceError):
                count = 0
            if not count:
                raise ClosedError
            self._buffer += memoryview(self._came)[:count]
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def close(self) -> None:
        """Close this end."""
        self._stream.socket.close()
