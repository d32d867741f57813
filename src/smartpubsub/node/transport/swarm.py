"""The libp2p swarm of a host: TCP, Noise and Yamux, and nothing that acts on its own."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, TypeAlias

import trio
from libp2p.abc import IRawConnection
from libp2p.crypto.keys import KeyPair
from libp2p.custom_types import THandler, TProtocol
from libp2p.network.auto_connector import AutoConnector
from libp2p.network.config import ConnectionConfig, RetryConfig
from libp2p.network.swarm import Swarm
from libp2p.peer.id import ID
from libp2p.peer.peerstore import PeerStore
from libp2p.stream_muxer.yamux.yamux import PROTOCOL_ID as YAMUX
from libp2p.stream_muxer.yamux.yamux import Yamux
from libp2p.transport.tcp.tcp import TCP, TCPListener
from libp2p.transport.upgrader import TransportUpgrader
from multiaddr import Multiaddr

from smartpubsub.node.transport import patches
from smartpubsub.node.transport.counts import Counts
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.select import QuickClient

_KEEPALIVES = 3

MakeTcp: TypeAlias = Callable[[float, int, Counts], "WatchedTcp"]
"""Makes another TCP transport with the same arguments, for the testbed and tests."""


def make_swarm(
    peer: ID,
    keys: KeyPair,
    settings: HostSettings,
    counts: Counts,
    make_tcp: MakeTcp | None = None,
) -> Swarm:
    """A swarm that dials only on request, and once for each request."""
    patches.apply()
    store = PeerStore()
    store.add_key_pair(peer, keys)
    limit = settings.connection_count_max
    tcp = (make_tcp or WatchedTcp)(settings.silence_s, limit, counts)
    swarm = Swarm(
        peer,
        store,
        _upgrader(keys),
        transports=[tcp],
        retry_config=RetryConfig(max_retries=0),
        connection_config=ConnectionConfig(
            max_connections=limit, high_watermark=limit, low_watermark=0, min_connections=0
        ),
    )
    swarm.auto_connector = _NoConnector()
    tcp.connection_count = swarm.get_total_connections
    return swarm


def _upgrader(keys: KeyPair) -> TransportUpgrader:
    upgrader = TransportUpgrader(
        secure_transports_by_protocol=patches.d2_noise_only(keys),
        muxer_transports_by_protocol={TProtocol(YAMUX): Yamux},
    )
    for choice in (upgrader.security_multistream, upgrader.muxer_multistream):
        choice._selector.multiselect_client = QuickClient()
    return upgrader


class _NoConnector(AutoConnector):
    """Replaces libp2p's automatic dialling, which also remembers all peers."""

    def __init__(self) -> None:
        pass

    async def start(self) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""

    async def run_background_task(self, nursery: trio.Nursery) -> None:
        """Do nothing."""

    async def maybe_connect(self) -> None:
        """Do nothing."""

    def record_disconnect(self, peer_id: ID) -> None:
        """Do nothing."""


class WatchedTcp(TCP):
    """TCP that closes a connection when the peer is silent for too long.

    It refuses connections beyond a limit before the handshake.
    """

    def __init__(self, silence_s: float, connection_count_max: int, counts: Counts) -> None:
        super().__init__()
        self._silence_s = silence_s
        self._connection_count_max = connection_count_max
        self._counts = counts
        self._inbound_count = 0
        """Inbound connections, including those in the handshake."""
        self.connection_count: Callable[[], int] = lambda: 0
        """Inbound connections that are established."""

    async def dial(self, maddr: Multiaddr) -> IRawConnection:
        """Connect to an address."""
        connection: Any = await super().dial(maddr)
        self._watch(connection.stream.stream.socket)
        return connection  # type: ignore[no-any-return]

    def create_listener(self, handler_function: THandler) -> TCPListener:
        """Make a listener that passes each connection to a handler."""

        async def watch_and_handle(stream: Any) -> None:
            there = max(self.connection_count(), self._inbound_count)
            if there >= self._connection_count_max:
                self._counts.refused_connections += 1
                await stream.close()
                return
            self._inbound_count += 1
            try:
                self._watch(stream.stream.socket)
                await handler_function(stream)
            finally:
                self._inbound_count -= 1

        return super().create_listener(watch_and_handle)

    def _watch(self, connected: trio.socket.SocketType) -> None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Elsewhere it takes as long as it takes.
            every_s = max(1, int(self._silence_s / _KEEPALIVES))
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, every_s)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, every_s)
            silence_ms = int(self._silence_s * 1_000)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence_ms)
