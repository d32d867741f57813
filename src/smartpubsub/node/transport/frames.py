"""Frames: messages in a byte stream, each with a length prefix."""

from __future__ import annotations

from contextlib import suppress
from math import inf
from typing import Protocol

import trio

from smartpubsub.kademlia.keys import varint_bytes
from smartpubsub.kademlia.protobuf import WireError

READ_BYTES = 64 << 10


class TooLongError(WireError):
    """A message beyond the size limit."""


class FrameTimeoutError(WireError):
    """A message whose last byte did not come in time."""


class UnfinishedFullError(WireError):
    """An incomplete message for which there is no room."""


class Unfinished:
    """The bytes of incomplete messages, over all streams."""

    def __init__(self, bytes_max: int, frame_s: float) -> None:
        self.frame_s = frame_s
        self.bytes = 0
        self._bytes_max = bytes_max

    def change(self, before: int, after: int) -> None:
        """Count a stream whose unfinished message has grown or is complete.

        Raise an error, and count nothing, if there is no room.
        """
        if after > before and self.bytes + after - before > self._bytes_max:
            raise UnfinishedFullError("there is no room for more unfinished messages")
        self.bytes += after - before


class Readable(Protocol):
    """A source of bytes; at its end it returns b"" or raises an error."""

    async def read(self, n: int | None = None) -> bytes:
        """Wait for bytes."""
        ...


class FrameReader:
    """Reads frames from a stream, several from one read if possible."""

    def __init__(
        self, stream: Readable, message_bytes_max: int, unfinished: Unfinished | None = None
    ) -> None:
        self._stream = stream
        self._unfinished = unfinished or Unfinished(message_bytes_max + READ_BYTES, inf)
        self._counted = 0
        self._message_bytes_max = message_bytes_max
        self._head_bytes_max = varint_bytes(message_bytes_max)
        self._buffer = bytearray()
        self._start = 0

    async def next(self) -> bytes | None:
        """The next frame with its length prefix; None if the stream ends between two frames."""
        began_at = inf
        while (end := self._end()) is None:
            # Returned frames are removed from the buffer once for each read.
            del self._buffer[: self._start]
            self._start = 0
            self._count(len(self._buffer))
            if self._buffer and began_at == inf:
                began_at = trio.current_time()
            if not (some := await self._read(began_at + self._unfinished.frame_s)):
                if self._buffer:
                    raise WireError("a stream ends within a message")
                return None
            self._buffer += some
        self._count(0)
        frame = bytes(self._buffer[self._start : end])
        self._start = end
        return frame

    def ready(self, count_max: int, bytes_max: int) -> list[bytes]:
        """Further complete frames, up to a number and a total size."""
        frames: list[bytes] = []
        with suppress(WireError):  # `next` raises the error again.
            while len(frames) < count_max and (end := self._end()) is not None:
                bytes_max -= end - self._start
                if bytes_max < 0:
                    break
                frames.append(bytes(self._buffer[self._start : end]))
                self._start = end
        return frames

    def close(self) -> None:
        """Forget an unfinished message."""
        self._count(0)

    def _count(self, size: int) -> None:
        self._unfinished.change(self._counted, size)
        self._counted = size

    async def _read(self, deadline: float) -> bytes:
        with trio.CancelScope(deadline=deadline) as scope:
            try:
                return await self._stream.read(READ_BYTES)
            except EOFError:
                return b""
        assert scope.cancelled_caught
        raise FrameTimeoutError("a message takes too long to arrive")

    def _end(self) -> int | None:
        """The end of the first frame, if it is complete."""
        length = 0
        head = self._buffer[self._start : self._start + self._head_bytes_max]
        for place, byte in enumerate(head):
            length |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                break
        else:
            if len(head) == self._head_bytes_max:
                raise WireError("the bytes do not begin with the length of a message")
            return None
        if length > self._message_bytes_max:
            raise TooLongError(
                f"a message of {length} bytes; at most {self._message_bytes_max} are taken"
            )
        end = self._start + place + 1 + length
        return end if end <= len(self._buffer) else None
