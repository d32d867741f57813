"""Connections to an HTTP gateway on asyncio or trio, through anyio."""

from __future__ import annotations

import anyio

from smartpubsub.client.async_socket import AsyncStream, Turns
from smartpubsub.client.blocking_socket import CONNECT_S_MAX, FINISH_S_MAX
from smartpubsub.client.web_socket import Place, WebStream


class AsyncWeb(Turns):
    """Connects to a gateway, on the event loop that runs."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self._place = place
        self.name = place.name

    async def connect(self) -> WebStream:
        """Begin a session."""
        return await WebStream.opened(self._place, self)

    async def dial(self, place: Place) -> AsyncStream:
        """Open a connection."""
        with anyio.fail_after(CONNECT_S_MAX):
            if place.is_encrypted:
                made = await anyio.connect_tcp(place.host, place.port, tls=True)
                return AsyncStream(made)
            return AsyncStream(await anyio.connect_tcp(place.host, place.port))

    async def pause(self, s: float) -> None:
        """Wait."""
        await anyio.sleep(s)

    def shielded(self) -> anyio.CancelScope:
        """Shield a block from cancellation, for a limited time."""
        return anyio.move_on_after(FINISH_S_MAX, shield=True)
