"""Streams as Server-Sent Events."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import msgspec
import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from smartpubsub.gateway.access import Permit
from smartpubsub.gateway.pieces import cancel_when_gone
from smartpubsub.gateway.problems import ProblemError
from smartpubsub.gateway.streams import (
    Closed,
    EndOfStored,
    Gap,
    Item,
    Reader,
    StreamItem,
    Streams,
)

TOO_SLOW = "the reader is too slow; connect again with Last-Event-ID to resume"
RETRY_MS = 1_000

_BEGINNING = f": smartpubsub\nretry: {RETRY_MS}\n\n".encode()
_KEEP_ALIVE = b": keep-alive\n\n"


class StreamResponse(Response):
    """A stream that is open until its reader leaves.

    Events have no event type, so a browser's `onmessage` gets them. Marks have the types
    `end-of-stored`, `gap` and `closed`.
    """

    media_type = "text/event-stream"

    def __init__(
        self, opening: AbstractAsyncContextManager[Reader], reader: Reader, streams: Streams
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._opening = opening
        self._reader = reader
        self._streams = streams
        self.permit: Permit | None = None

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cancel_when_gone, receive, nursery.cancel_scope)
                await self._send_all(send)
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await self._opening.__aexit__(None, None, None)

    async def _send_all(self, send: Send) -> None:
        reader = self._reader
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        body = _BEGINNING
        while True:
            await send({"type": "http.response.body", "body": body, "more_body": True})
            items: list[StreamItem] = [Closed(TOO_SLOW)] if reader.is_too_slow else []
            items = items or await self._streams.items_of(reader)
            try:
                if self.permit is not None:
                    self.permit.check()
            except ProblemError as problem:
                items = [Closed(str(problem))]
            body = frames(items) or _KEEP_ALIVE
            if items and isinstance(items[-1], Closed):
                await send({"type": "http.response.body", "body": body, "more_body": False})
                return
            await trio.sleep(self._streams.pace_s())


def frames(items: list[StreamItem]) -> bytes:
    """Write items; JSON has no line breaks, so each is one line of data."""
    return b"".join(map(_frame, items))


def _frame(item: StreamItem) -> bytes:
    match item:
        case Item(position, _, json):
            return b"id: %b\ndata: %b\n\n" % (str(position).encode(), json)
        case EndOfStored(count, is_whole):
            return _mark("end-of-stored", {"events": count, "is_whole": is_whole})
        case Gap(reason, missed):
            return _mark("gap", {"reason": reason, "missed": missed})
        case Closed(reason):
            return _mark("closed", {"reason": reason})


def _mark(kind: str, content: dict[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(content))
