"""Frames: messages in a byte stream, each with a length prefix."""

from __future__ import annotations

from typing import Protocol

from smartpubsub.kademlia.keys import varint_bytes
from smartpubsub.kademlia.protobuf import WireError

READ_BYTES = 64 << 10


class TooLongError(WireError):
    """A message beyond the size limit."""


class Readable(Protocol):
    """A source of bytes; at its end it returns b"" or raises an error."""

    async def read(self, n: int | None = None) -> bytes:
        """Wait for bytes."""
        ...


class FrameReader:
    """Reads frames from a stream, several from one read if possible."""

    def __init__(self, stream: Readable, message_bytes_max: int) -> None:
        self._stream = stream
        self._message_bytes_max = message_bytes_max
        self._head_bytes_max = varint_bytes(message_bytes_max)
        self._buffer = bytearray()
        self._start = 0

    async def next(self) -> bytes | None:
        """The next frame with its length prefix; None if the stream ends between two frames."""
        while (end := self._end()) is None:
            # Returned frames are removed from the buffer once for each read.
            del self._buffer[: self._start]
            self._start = 0
            if not (some := await self._read()):
                if self._buffer:
                    raise WireError("a stream ends within a message")
                return None
            self._buffer += some
        frame = bytes(self._buffer[self._start : end])
        self._start = end
        return frame

    async def _read(self) -> bytes:
        try:
            return await self._stream.read(READ_BYTES)
        except EOFError:
            return b""

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
