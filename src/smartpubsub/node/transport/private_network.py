"""Connections of a private network: everything on them is encrypted with the network's key.

This is libp2p's private network transport. Each side sends a random nonce, and then its bytes,
encrypted as one stream with XSalsa20. It is below Noise: it excludes nodes without the key, and
Noise still authenticates the nodes. libp2p's own class for it has a shorter nonce than the
specification, so other implementations do not understand it.
"""

from __future__ import annotations

import os
import struct

from Crypto.Cipher import Salsa20
from libp2p.abc import IRawConnection
from libp2p.custom_types import THandler
from libp2p.io.abc import ReadWriteCloser
from libp2p.io.utils import read_exactly
from libp2p.network.connection.raw_connection import RawConnection
from libp2p.transport.tcp.tcp import TCPListener
from multiaddr import Multiaddr

from smartpubsub.node.network_key import NetworkKey
from smartpubsub.node.transport.counts import Counts
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.swarm import WatchedTcp

NONCE_BYTES = 24

_SIGMA = struct.unpack("<4I", b"expand 32-byte k")
_DOUBLE_ROUNDS = 10
_QUARTERS = (
    *((0, 4, 8, 12), (5, 9, 13, 1), (10, 14, 2, 6), (15, 3, 7, 11)),
    *((0, 1, 2, 3), (5, 6, 7, 4), (10, 11, 8, 9), (15, 12, 13, 14)),
)
"""The columns and the rows of Salsa20's matrix."""


def xsalsa20(key: bytes, nonce: bytes) -> Salsa20.Salsa20Cipher:
    """The cipher XSalsa20: Salsa20 with a key derived from the first part of a longer nonce."""
    return Salsa20.new(key=_hsalsa20(key, nonce[:16]), nonce=nonce[16:])


def _hsalsa20(key: bytes, nonce: bytes) -> bytes:
    k, n = struct.unpack("<8I", key), struct.unpack("<4I", nonce)
    first, second, third, fourth = _SIGMA
    x = [first, *k[:4], second, *n, third, *k[4:], fourth]
    for _ in range(_DOUBLE_ROUNDS):
        for a, b, c, d in _QUARTERS:
            x[b] ^= _rotated(x[a] + x[d], 7)
            x[c] ^= _rotated(x[b] + x[a], 9)
            x[d] ^= _rotated(x[c] + x[b], 13)
            x[a] ^= _rotated(x[d] + x[c], 18)
    return struct.pack("<8I", *(x[place] for place in (0, 5, 10, 15, 6, 7, 8, 9)))


def _rotated(word: int, by: int) -> int:
    word &= 0xFFFFFFFF
    return (word << by | word >> (32 - by)) & 0xFFFFFFFF


class PrivateStream(ReadWriteCloser):
    """A connection on which all bytes are encrypted with the key of a network."""

    def __init__(self, stream: ReadWriteCloser, key: NetworkKey) -> None:
        self._stream = stream
        self._key = key
        self._reading: Salsa20.Salsa20Cipher | None = None
        self._writing: Salsa20.Salsa20Cipher | None = None

    async def read(self, n: int | None = None) -> bytes:
        """Read some bytes, none at the end."""
        if self._reading is None:
            nonce = await read_exactly(self._stream, NONCE_BYTES)
            self._reading = xsalsa20(self._key.secret, nonce)
        return self._reading.decrypt(await self._stream.read(n))

    async def write(self, data: bytes) -> None:
        """Write all bytes."""
        nonce = b""
        if self._writing is None:
            nonce = os.urandom(NONCE_BYTES)
            self._writing = xsalsa20(self._key.secret, nonce)
        await self._stream.write(nonce + self._writing.encrypt(data))

    async def close(self) -> None:
        """Close the connection."""
        await self._stream.close()

    def get_remote_address(self) -> tuple[str, int] | None:
        """The host and the port at the other end."""
        return self._stream.get_remote_address()


class PrivateTcp(WatchedTcp):
    """TCP for the nodes of a private network."""

    def __init__(self, key: NetworkKey, settings: HostSettings, counts: Counts) -> None:
        super().__init__(settings, counts)
        self._key = key

    async def dial(self, maddr: Multiaddr) -> IRawConnection:
        """Connect to an address."""
        connection = await super().dial(maddr)
        assert isinstance(connection, RawConnection)
        connection.stream = PrivateStream(connection.stream, self._key)
        return connection

    def create_listener(self, handler_function: THandler) -> TCPListener:
        """Make a listener that passes each connection to a handler."""

        async def handle(stream: ReadWriteCloser) -> None:
            await handler_function(PrivateStream(stream, self._key))

        return super().create_listener(handle)
