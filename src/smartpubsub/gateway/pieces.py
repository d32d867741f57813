"""Answers that are written piece by piece, while the client reads them."""

from __future__ import annotations

from collections.abc import Iterable

import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

PIECE_BYTES = 64 << 10
"""Smaller pieces are joined, because each takes a write."""


class PiecesResponse(Response):
    """Pieces that are made when they are sent: together they may be many megabytes."""

    def __init__(self, pieces: Iterable[bytes], media_type: str, **headers: str) -> None:
        super().__init__(media_type=media_type, headers=headers or None)
        del self.headers["content-length"]
        self._pieces = pieces

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_when_gone, receive, nursery.cancel_scope)
            await self._send_all(send)
            nursery.cancel_scope.cancel()

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        body = bytearray()
        for piece in self._pieces:
            body += piece
            if len(body) >= PIECE_BYTES:
                await send({"type": "http.response.body", "body": bytes(body), "more_body": True})
                body.clear()
        await send({"type": "http.response.body", "body": bytes(body), "more_body": False})


async def cancel_when_gone(receive: Receive, scope: trio.CancelScope) -> None:
    """Cancel an answer when its client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
