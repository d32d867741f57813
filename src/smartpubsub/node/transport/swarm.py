"""The libp2p swarm of a host: TCP, Noise and Yamux, without automatic dialling."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
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
LOOPBACK = "loopback"

OUTBOUND_SHARE = 3
"""One in this many connections is for peers that this node dials."""
SITE_BITS = 32, 56
"""The bits of an address that one site usually gets, of IPv4 and IPv6."""
NEIGHBOURHOOD_BITS = 24, 48
"""The bits of addresses that are usually close to each other and rented together."""

MakeTcp: TypeAlias = Callable[[HostSettings, Counts], "WatchedTcp"]
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
    tcp = (make_tcp or WatchedTcp)(settings, counts)
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

    It refuses connections beyond a limit before the handshake. Peers that dial get at most two
    thirds of all connections, and those with the same address prefix a few.
    """

    def __init__(self, settings: HostSettings, counts: Counts) -> None:
        super().__init__()
        self._settings = settings
        self._silence_s = settings.silence_s
        self._counts = counts
        all_max = settings.connection_count_max
        self._inbound_count_max = max(1, all_max - all_max // OUTBOUND_SHARE)
        self._inbound: Counter[str] = Counter()
        """Inbound connections by prefix, including those in the handshake."""
        self.connection_count: Callable[[], int] = lambda: 0
        """The number of established connections, in both directions."""

    async def dial(self, maddr: Multiaddr) -> IRawConnection:
        """Connect to an address."""
        connection: Any = await super().dial(maddr)
        self._watch(connection.stream.stream.socket)
        return connection  # type: ignore[no-any-return]

    def create_listener(self, handler_function: THandler) -> TCPListener:
        """Make a listener that passes each connection to a handler."""

        async def watch_and_handle(stream: Any) -> None:
            prefix = prefix_of((stream.get_remote_address() or ("", 0))[0])
            if not self._has_room_for(prefix):
                await stream.close()
                return
            self._inbound[prefix] += 1
            try:
                self._watch(stream.stream.socket)
                await handler_function(stream)
            finally:
                self._inbound -= Counter([prefix])

        return super().create_listener(watch_and_handle)

    def _has_room_for(self, prefix: str) -> bool:
        settings = self._settings
        is_exempt = prefix == LOOPBACK and settings.loopback_is_exempt
        if not is_exempt and self._inbound[prefix] >= settings.connections_per_prefix_max:
            self._counts.refused_prefix += 1
            return False
        is_full = self.connection_count() >= settings.connection_count_max
        if is_full or self._inbound.total() >= self._inbound_count_max:
            self._counts.refused_connections += 1
            return False
        return True

    def _watch(self, connected: trio.socket.SocketType) -> None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Other systems use their own timeout.
            every_s = max(1, int(self._silence_s / _KEEPALIVES))
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, every_s)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, every_s)
            silence_ms = int(self._silence_s * 1_000)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence_ms)


@lru_cache(maxsize=1 << 10)
def prefix_of(host: str, bits: tuple[int, int] = SITE_BITS) -> str:
    """The first bits of an address of IPv4 or IPv6.

    >>> prefix_of("192.0.2.7"), prefix_of("2001:db8:0:1::7"), prefix_of("::ffff:127.0.0.1")
    ('192.0.2.7/32', '2001:db8::/56', 'loopback')
    """
    try:
        address = ip_address(host.split("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback:
        return LOOPBACK
    length = bits[isinstance(address, IPv6Address)]
    return str(ip_network((address, length), strict=False))
