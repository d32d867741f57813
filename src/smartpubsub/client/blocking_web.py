"""Connections to an HTTP gateway whose methods block."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import AbstractContextManager, nullcontext

from smartpubsub.client.blocking_socket import CONNECT_S_MAX, BlockingStream, NoLimit
from smartpubsub.client.web_socket import Place, WebStream


class BlockingWeb:
    """Connects to a gateway."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.name = place.name

    async def connect(self) -> WebStream:
        """Begin a session."""
        return await WebStream.opened(self._place, self)

    async def dial(self, place: Place) -> BlockingStream:
        """Open a connection."""
        made = socket.create_connection((place.host, place.port), CONNECT_S_MAX)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if place.is_encrypted:
            made = ssl.create_default_context().wrap_socket(made, server_hostname=place.host)
        return BlockingStream(made)

    async def pause(self, s: float) -> None:
        """Wait."""
        time.sleep(s)

    def shielded(self) -> AbstractContextManager[None]:
        """Do nothing: a thread is never cancelled."""
        return nullcontext()

    def turn(self) -> NoLimit:
        """Do not limit requests: a thread makes one at a time."""
        return NoLimit()
