"""A fast path for plain Yamux frames: bytes for an open stream.

py-libp2p takes as long for a frame as all other handling of a message. Plain frames go straight to
their streams, and py-libp2p gets all others unchanged.
"""

from __future__ import annotations

import struct
from typing import Any

from libp2p.stream_muxer.yamux import yamux

_HEAD = struct.Struct(yamux.YAMUX_HEADER_FORMAT)


class PlainFrames:
    """Wraps a connection that Yamux reads from; all other attributes are the connection's."""

    def __init__(self, muxer: Any, connection: Any, window_bytes_max: int) -> None:
        self._muxer = muxer
        self._connection = connection
        self._window_bytes_max = window_bytes_max
        self._came = b""
        self._start = 0
        self._body_bytes = 0
        """The unread part of the body of a frame whose head Yamux has read."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def read(self, n: int) -> bytes:
        """Read some bytes of a frame that is not plain; none at the end of the connection."""
        if not self._body_bytes:
            return await self._next_head()
        if self._start == len(self._came) and not await self._fill():
            return b""
        piece = self._came[self._start : self._start + min(n, self._body_bytes)]
        self._start += len(piece)
        self._body_bytes -= len(piece)
        return piece

    async def _next_head(self) -> bytes:
        """Wait for the head of the next frame that is not plain."""
        while True:
            while len(self._came) - self._start < _HEAD.size:
                if not await self._fill():
                    return b""
            _, kind, flags, stream, length = _HEAD.unpack_from(self._came, self._start)
            if kind != yamux.TYPE_DATA or flags or not self._take(stream, length):
                break
        head = self._came[self._start : self._start + _HEAD.size]
        self._start += _HEAD.size
        self._body_bytes = length if kind == yamux.TYPE_DATA else 0
        return head

    async def _fill(self) -> bool:
        """Read more bytes; return whether there were any."""
        more = await self._connection.read()
        self._came = self._came[self._start :] + more
        self._start = 0
        return bool(more)

    def _take(self, stream: int, length: int) -> bool:
        """Pass a frame to its stream, if it is complete and plain."""
        start = self._start + _HEAD.size
        buffer = self._muxer.stream_buffers.get(stream)
        opened = self._muxer.streams.get(stream)
        event = self._muxer.stream_events.get(stream)
        if buffer is None or opened is None or event is None:
            return False
        held = len(buffer) + length
        if start + length > len(self._came) or held > self._window_bytes_max:
            return False
        buffer += self._came[start : start + length]
        opened.recv_window = max(0, opened.recv_window - length)
        event.set()
        self._start = start + length
        return True
