"""Streams as the rest of a host sees them, and what can go wrong with them."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

import trio
from libp2p.exceptions import BaseLibp2pError

from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.transport.frames import Readable

STREAM_ERRORS = (
    BaseLibp2pError,
    OSError,
    EOFError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    trio.TooSlowError,
)
"""A stream, or the connection that it is on, has ended, or it takes too long."""


class UnreachableError(SmartPubSubError):
    """There is no connection to a peer and none could be made, or it does not speak a protocol."""


class ConnectionsRefusedError(UnreachableError):
    """The peer's machine refuses connections: no process listens where the peer did."""


class StreamRefusedError(SmartPubSubError):
    """A stream that is not worth being kept."""


class Stream(Readable, Protocol):
    """Both ways of a stream."""

    async def write(self, data: bytes) -> None:
        """Send bytes, as soon as the other end takes them."""
        ...

    async def close(self) -> None:
        """Say that nothing more comes."""
        ...

    async def reset(self) -> None:
        """End it at once, both ways."""
        ...


def shielded(within_s: float) -> trio.CancelScope:
    """A scope for what has to be done in some time also while all is being cancelled."""
    return trio.CancelScope(deadline=trio.current_time() + within_s, shield=True)


async def end(stream: Stream, within_s: float, *, politely: bool) -> None:
    """End a stream, also while all is being cancelled; politely, what was sent still arrives."""
    # py-libp2p may run into anything here if the connection goes at the same time.
    with shielded(within_s), suppress(Exception):
        await (stream.close() if politely else stream.reset())
