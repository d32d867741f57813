"""Link conditions, applied to a node's real connections.

All connections of a node share one outgoing link of a fixed rate. Bytes arrive at the other end
after the latency and some jitter. Both ends must know each other, so the connecting node sends its
number first. A connection keeps its order, as TCP does, and loses nothing: a lost segment is
retransmitted after TCP's usual timeout, and all later bytes wait. Nothing passes a cut while it
lasts; a connection that is cut for longer than a host tolerates silence breaks.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

import trio
from libp2p.abc import IRawConnection
from libp2p.custom_types import THandler
from libp2p.io.abc import ReadWriteCloser
from libp2p.io.exceptions import ConnectionClosedError
from libp2p.io.trio import TrioTCPStream
from libp2p.io.utils import read_exactly
from libp2p.transport.exceptions import OpenConnectionError
from libp2p.transport.tcp.tcp import TCPListener
from multiaddr import Multiaddr

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.node.transport.counts import Counts
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.swarm import WatchedTcp
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.testbed.messages import Cut

RESEND_S_MIN = 0.2
"""The minimum retransmission timeout of TCP, as in Linux."""
SEGMENT_BYTES = 1_460
"""The size of a segment, the unit of loss."""
BUFFER_BYTES = 256 << 10
"""The buffer of a connection; a writer waits when it is full, as with a socket."""
NUMBER_BYTES = 4
TICKS_PER_S = 1_000
"""Bytes that arrive within one tick are passed on together."""
CLOSE_S = 1.0
"""How long closing waits for written bytes to arrive."""


class Cuts:
    """The current cuts between nodes; one object for all nodes of a process."""

    def __init__(self) -> None:
        self.nodes_by_port: Mapping[int, int] = {}
        """The nodes by address."""
        self._cut = Cut(frozenset())
        self._changed = trio.Event()

    def set(self, cut: Cut) -> None:
        """Cut a group of nodes off from the rest."""
        self._cut = cut
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def is_cut(self, sender: int, receiver: int) -> bool:
        """Whether the path from one node to another is cut."""
        leaves = sender in self._cut.group
        enters = receiver in self._cut.group
        return leaves != enters and (leaves or not self._cut.one_way)

    async def wait_for_passage(self, sender: int, receiver: int) -> None:
        """Wait until the path from one node to another is open."""
        while self.is_cut(sender, receiver):
            await self._changed.wait()


class Link:
    """A node's outgoing link, which all its connections share."""

    def __init__(
        self,
        node: int,
        options: NetworkOptions,
        latency_us: Callable[[int], int],
        cuts: Cuts,
        rng: Random,
        spawn: Callable[..., None],
    ) -> None:
        self.node = node
        self.cuts = cuts
        self.spawn = spawn
        """Starts an async function in the background."""
        self._latency_us = latency_us
        """The node at the other end."""
        self._latencies_s: dict[int, float] = {}
        self._jitter_s = options.jitter_us / SECOND
        self._loss = options.loss
        self._bytes_per_s = options.bandwidth_bytes_per_s
        self._rng = rng
        self._free_at = 0.0
        self._due: list[tuple[float, int, ShapedStream]] = []
        """The connections with bytes in transit, and when the first of these arrive."""
        self._numbers = count()
        self._has_sooner = trio.Event()
        spawn(self._carry)

    def latency_s(self, peer: int) -> float:
        """The latency to a node."""
        latency_s = self._latencies_s.get(peer)
        if latency_s is None:
            latency_s = self._latencies_s[peer] = self._latency_us(peer) / SECOND
        return latency_s

    def call_at(self, at: float, stream: ShapedStream) -> None:
        """Schedule a call to a connection when its next bytes arrive."""
        heappush(self._due, (at, next(self._numbers), stream))
        if self._due[0][2] is stream:
            self._has_sooner.set()

    async def _carry(self) -> None:
        """Deliver bytes in transit on all connections; one task per connection would cost more."""
        while True:
            at = self._tick_after(self._due[0][0]) if self._due else math.inf
            self._has_sooner = trio.Event()
            with trio.CancelScope(deadline=at):
                await self._has_sooner.wait()
            now = trio.current_time()
            while self._due and self._tick_after(self._due[0][0]) <= now:
                heappop(self._due)[2].arrive()

    def _tick_after(self, at: float) -> float:
        return math.ceil(round(at * TICKS_PER_S, 3)) / TICKS_PER_S

    def arrival(self, peer: int, size: int, silence_s: float) -> float:
        """The arrival time of bytes that are sent now, on trio's clock."""
        latency_s = self.latency_s(peer)
        self._free_at = max(self._free_at, trio.current_time()) + size / self._bytes_per_s
        jitter_s = self._rng.uniform(0, self._jitter_s) if self._jitter_s else 0.0
        lost_s = self._resending_s(size, 2 * latency_s, silence_s) if self._loss else 0.0
        return self._free_at + latency_s + jitter_s + lost_s

    def _resending_s(self, size: int, round_trip_s: float, silence_s: float) -> float:
        """The delay of the segment that is lost most often, up to the time when the connection
        breaks."""
        longest_s = 0.0
        for _ in range(-(-size // SEGMENT_BYTES)):
            waited_s, pause_s = 0.0, max(RESEND_S_MIN, 2 * round_trip_s)
            while self._rng.random() < self._loss and waited_s < silence_s:
                waited_s += pause_s
                pause_s *= 2
            longest_s = max(longest_s, waited_s)
        return longest_s


class ShapedTcp(WatchedTcp):
    """A TCP transport whose connections have link conditions."""

    def __init__(self, link: Link, settings: HostSettings, counts: Counts) -> None:
        super().__init__(settings, counts)
        self._link = link

    async def dial(self, maddr: Multiaddr) -> IRawConnection:
        """Connect to an address, which takes a round trip."""
        link = self._link
        peer = link.cuts.nodes_by_port.get(int(maddr.value_for_protocol("tcp") or 0))
        if peer is None:
            raise OpenConnectionError(f"there is no node at {maddr}")
        await link.cuts.wait_for_passage(link.node, peer)
        await link.cuts.wait_for_passage(peer, link.node)
        await trio.sleep(2 * link.latency_s(peer))
        connection: Any = await super().dial(maddr)
        await connection.stream.write(link.node.to_bytes(NUMBER_BYTES, "big"))
        connection.stream = ShapedStream(connection.stream, link, peer, self._silence_s)
        return connection  # type: ignore[no-any-return]

    def create_listener(self, handler_function: THandler) -> TCPListener:
        """A listener that hands each connection to a handler."""

        async def shape_and_handle(stream: Any) -> None:
            peer = int.from_bytes(await read_exactly(stream, NUMBER_BYTES), "big")
            await handler_function(ShapedStream(stream, self._link, peer, self._silence_s))

        return super().create_listener(shape_and_handle)


class ShapedStream(ReadWriteCloser):
    """A node's end of a connection with another."""

    def __init__(self, stream: ReadWriteCloser, link: Link, peer: int, silence_s: float) -> None:
        self._stream = stream
        self._link = link
        self._peer = peer
        self._silence_s = silence_s
        self._under_way: deque[tuple[float, bytes]] = deque()
        """Written bytes with their arrival times."""
        self._under_way_bytes = 0
        self._last_at = 0.0
        self._is_carried = False
        """Whether a call is scheduled, or arrived bytes are being passed on."""
        self._is_closing = False
        self._is_over = False
        self._has_room = trio.Event()

    async def write(self, data: bytes) -> None:
        """Send bytes; they arrive in the order of writing."""
        while self._under_way_bytes > BUFFER_BYTES and not self._is_over:
            await self._has_room.wait()
        if self._is_over:
            raise ConnectionClosedError("the connection has ended", transport="tcp")
        at = max(self._last_at, self._link.arrival(self._peer, len(data), self._silence_s))
        self._last_at = at
        self._under_way.append((at, data))
        self._under_way_bytes += len(data)
        if not self._is_carried:
            self._go_on()

    async def read(self, n: int | None = None) -> bytes:
        """Read some bytes, as soon as there are any."""
        return await self._stream.read(n)

    async def close(self) -> None:
        """Close, after written bytes have arrived or a time limit has passed."""
        self._is_closing = True
        with trio.move_on_after(CLOSE_S):
            while self._is_carried and not self._is_over:
                await self._has_room.wait()
        await self._end()

    def get_remote_address(self) -> tuple[str, int] | None:
        """The address of the other end."""
        return self._stream.get_remote_address()

    def _go_on(self) -> None:
        """Schedule a call for the next arrival, if there is any."""
        self._is_carried = bool(self._under_way) and not self._is_over
        if self._is_carried:
            self._link.call_at(self._under_way[0][0], self)
        elif self._is_closing:
            self._link.spawn(self._end)

    def arrive(self) -> None:
        """Pass on bytes that have arrived: at once if the socket has room, otherwise when it
        has."""
        if self._is_over:
            return
        if self._link.cuts.is_cut(self._link.node, self._peer):
            self._link.spawn(self._pass_on, b"")
            return
        data = self._arrived()
        sent = self._sent_now(data)
        if sent < len(data):
            self._link.spawn(self._pass_on, data[sent:])
        else:
            self._go_on()

    def _sent_now(self, data: bytes) -> int:
        """Write without waiting, and return the number of bytes; errors show in the waiting
        write."""
        stream: Any = self._stream
        if not isinstance(stream, TrioTCPStream):
            return 0
        try:
            return os.write(stream.stream.socket.fileno(), data)
        except OSError:
            return 0

    async def _pass_on(self, data: bytes) -> None:
        """Wait until the socket has room, and continue with the next bytes."""
        try:
            with trio.fail_after(self._silence_s):
                await self._link.cuts.wait_for_passage(self._link.node, self._peer)
            await self._stream.write(data or self._arrived())
        except (ConnectionClosedError, trio.TooSlowError, OSError):
            with trio.CancelScope(shield=True):
                await self._end()
        else:
            self._go_on()

    def _arrived(self) -> bytes:
        """Remove and return the bytes that have arrived."""
        pieces: list[bytes] = []
        now = trio.current_time()
        while self._under_way and (not pieces or self._under_way[0][0] <= now):
            pieces.append(self._under_way.popleft()[1])
        data = b"".join(pieces)
        self._under_way_bytes -= len(data)
        self._wake_writers()
        return data

    def _wake_writers(self) -> None:
        if self._has_room.statistics().tasks_waiting:
            has_room, self._has_room = self._has_room, trio.Event()
            has_room.set()

    async def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._wake_writers()
            await self._stream.close()
