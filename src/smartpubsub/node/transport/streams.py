"""Streams, and their errors."""

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
"""The errors of a stream that has ended, with its connection or alone, or takes too long."""


class UnreachableError(SmartPubSubError):
    """There is no connection to a peer and none could be made, or it does not speak a protocol."""


class BannedError(UnreachableError):
    """This node has no connections with the peer."""


class ConnectionsRefusedError(UnreachableError):
    """The peer's machine refuses connections: no process listens where the peer did."""


class StreamRefusedError(SmartPubSubError):
    """A stream that is to be reset."""


class Stream(Readable, Protocol):
    """A stream in both directions."""

    async def write(self, data: bytes) -> None:
        """Send bytes, as soon as the other end takes them."""
        ...

    async def close(self) -> None:
        """Close the sending direction."""
        ...

    async def reset(self) -> None:
        """Reset both directions."""
        ...


def shielded(within_s: float) -> trio.CancelScope:
    """A shielded scope with a deadline, for cleanup."""
    return trio.CancelScope(deadline=trio.current_time() + within_s, shield=True)


async def end(stream: Stream, within_s: float, *, politely: bool) -> None:
    """Close a stream, also during cancellation; sent bytes still arrive."""
    # py-libp2p may raise any exception here if the connection closes at the same time.
    with shielded(within_s), suppress(Exception):
        await (stream.close() if politely else stream.reset())
