"""Patches for defects of py-libp2p 0.8.1.

Each patch mends a defect seen in that version, and has a test of the same name in
tests/node/test_patches.py. A node refuses to run on another version, which may have other defects.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from socket import SO_REUSEADDR, SOL_SOCKET
from typing import Any

import trio
from libp2p.abc import ISecureTransport
from libp2p.crypto.keys import KeyPair
from libp2p.crypto.x25519 import create_new_key_pair
from libp2p.custom_types import TProtocol
from libp2p.host import ping
from libp2p.io import msgio, utils
from libp2p.io.exceptions import ConnectionClosedError, IncompleteReadError
from libp2p.io.trio import TrioTCPStream
from libp2p.network import swarm
from libp2p.network.connection import swarm_connection
from libp2p.network.exceptions import SwarmException
from libp2p.network.stream.net_stream import NetStream
from libp2p.security.noise.io import (
    MAX_PLAINTEXT_LENGTH,
    SIZE_NOISE_MESSAGE_LEN,
    NoiseTransportReadWriter,
)
from libp2p.security.noise.transport import PROTOCOL_ID as NOISE
from libp2p.security.noise.transport import Transport as Noise
from libp2p.stream_muxer.exceptions import MuxedStreamError
from libp2p.stream_muxer.yamux import yamux
from libp2p.transport.tcp import tcp
from libp2p.utils import varint

from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.transport.plain_frames import PlainFrames

VERSION = "0.8.1"
WINDOW_BYTES_MAX = 1 << 20
"""How much a peer may send on a stream before this node reads."""
WINDOW_POLL_S = 0.01
READ_BYTES = 64 << 10
"""How much is read from a socket at once, if so much has come."""

_applied: list[str] = []


def apply(installed: str | None = None) -> None:
    """Patch libp2p, once in a process."""
    found = installed or metadata.version("libp2p")
    if found != VERSION:
        raise SmartPubSubError(
            f"libp2p {found} is installed, but a node runs on {VERSION} only; "
            f"install libp2p=={VERSION}"
        )
    if _applied:
        return
    _applied.append(found)
    for patch in (
        d1_listener_takes_connections_for_ever,
        d3_dial_does_not_wait,
        d4_write_waits_for_a_slow_reader,
        d5_read_takes_as_many_pieces_as_there_are,
        d6_stream_too_many_is_refused,
        d7_failed_dial_may_be_repeated,
        d8_windows_are_kept_to,
        d9_port_is_not_shared,
        d10_nothing_is_logged_unasked,
        d11_window_updates_are_batched,
        d12_socket_reads_are_buffered,
        d13_plain_frames_take_no_detour,
        d14_what_has_come_is_read_at_once,
        d15_locks_that_are_free_are_taken_at_once,
        d16_packets_of_noise_take_no_detour,
    ):
        patch()


def d1_listener_takes_connections_for_ever() -> None:
    """0.8.1 frees an inbound connection's place only when the node stops; it accepts 250 in all."""
    upgrade = swarm.Swarm.upgrade_inbound_raw_conn

    async def upgrade_and_stay(self: Any, raw_conn: Any, maddr: Any) -> Any:
        connection: Any = await upgrade(self, raw_conn, maddr)
        await connection.event_closed.wait()
        # After a return, the caller waits for the node's end; only an error makes it clean up.
        raise SwarmException("the connection has ended")

    _replace(swarm.Swarm, "upgrade_inbound_raw_conn", upgrade_and_stay)


def d2_noise_only(keys: KeyPair) -> Mapping[TProtocol, ISecureTransport]:
    """0.8.1 accepts plaintext too, in which a peer can claim any id. Noise proves the id."""
    return {NOISE: Noise(keys, noise_privkey=create_new_key_pair().private_key)}


def d3_dial_does_not_wait() -> None:
    """0.8.1 waits for 250 ms after each dial that succeeds, in case the caller wants a second."""
    _replace(swarm, "_HAPPY_EYEBALLS_DELAY", 0)


def d4_write_waits_for_a_slow_reader() -> None:
    """0.8.1 resets a stream whose reader pauses for 5 s; the writer should choose the timeout."""

    async def write(self: Any, data: bytes) -> None:
        sent = 0
        while sent < len(data):
            while self.send_window <= 0 and not self.send_closed:
                await trio.sleep(WINDOW_POLL_S)
            if self.send_closed or self.closed:
                raise MuxedStreamError("the stream is closed")
            room = min(self.send_window, yamux.MAX_MESSAGE_SIZE - yamux.HEADER_SIZE)
            piece = data[sent : sent + room]
            self.send_window -= len(piece)
            async with self.conn._write_lock:
                header = _data_header(self.stream_id, len(piece))
                await self.conn.secured_conn.write(header + piece)
            sent += len(piece)

    _replace(yamux.YamuxStream, "write", write)


def d5_read_takes_as_many_pieces_as_there_are() -> None:
    """0.8.1 gives up after 101 pieces, and reads as often again after the end of a stream."""

    async def read_exactly(reader: Any, n: int, retry_count: int = 0) -> bytes:  # noqa: ARG001
        taken = bytearray()
        while len(taken) < n:
            piece = await reader.read(n - len(taken))
            if not piece:
                raise IncompleteReadError(
                    f"an end after {len(taken)} of {n} bytes",
                    expected_bytes=n,
                    received_bytes=len(taken),
                )
            taken += piece
        return bytes(taken)

    for module in (yamux, msgio, utils, varint, ping):
        _replace(module, "read_exactly", read_exactly)


def d6_stream_too_many_is_refused() -> None:
    """0.8.1 hangs when it opens a stream on a connection that has 256."""
    open_stream = yamux.Yamux.open_stream

    async def open_stream_or_refuse(self: Any) -> Any:
        if self.stream_backlog_semaphore.value == 0:
            raise MuxedStreamError("too many streams are open on the connection")
        return await open_stream(self)

    _replace(yamux.Yamux, "open_stream", open_stream_or_refuse)


def d7_failed_dial_may_be_repeated() -> None:
    """0.8.1 does not dial an unreachable peer again for 60 s, though the peer may be back."""
    _replace(swarm._NegativePeerCache, "mark_failed", lambda _, __: None)


def d8_windows_are_kept_to() -> None:
    """0.8.1 only logs that a peer sends more than its window, and buffers all of it."""
    read_body = yamux.Yamux._read_data_body

    async def read_body_within_windows(self: Any, length: int) -> bytes:
        held = sum(map(len, self.stream_buffers.values()))
        # Twice, because a window sometimes grows both by what was read and by its room.
        if held + length > 2 * WINDOW_BYTES_MAX * (len(self.streams) + 1):
            raise trio.TooSlowError("the peer exceeds its window")  # This closes it.
        return await read_body(self, length)

    _replace(yamux, "MAX_WINDOW_SIZE", WINDOW_BYTES_MAX)
    _replace(yamux.Yamux, "_read_data_body", read_body_within_windows)


def d9_port_is_not_shared() -> None:
    """0.8.1 lets a second node listen on the same port, and each gets half of the connections."""
    _replace(tcp, "_set_reuse_flags", lambda socket: socket.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1))


def d10_nothing_is_logged_unasked() -> None:
    """0.8.1 prints each failed dial to standard error, and sets up the root logger by itself."""
    logging.getLogger("libp2p").addHandler(logging.NullHandler())
    _replace(swarm_connection, "logging", logging.getLogger("libp2p.network.connection"))


def d11_window_updates_are_batched() -> None:
    """0.8.1 sends a window update for each read, which doubles the frames of small messages."""

    async def grow_when_half_is_used(self: Any, *, bytes_read: int = 0) -> None:  # noqa: ARG001
        buffered = len(self.conn.stream_buffers.get(self.stream_id, b""))
        if 2 * (self.recv_window + buffered) <= self.target_recv_window:
            more = self._grow_to_delta(buffered) + self._apply_autotune_epoch(buffered)
            await self.send_window_update(more)

    _replace(yamux.YamuxStream, "_auto_tune_and_send_window_update", grow_when_half_is_used)


def d12_socket_reads_are_buffered() -> None:
    """0.8.1 calls the system twice for each message: for two bytes of length, and for the rest."""
    buffer_of_thread = _ReadBuffer()

    def read_now(stream: trio.SocketStream) -> bytes:
        # A buffer for each read would leave holes in the heap that are too small for the next one.
        buffer = buffer_of_thread.view
        return bytes(buffer[: os.readv(stream.socket.fileno(), [buffer])])

    async def read_socket(stream: trio.SocketStream) -> bytes:
        await trio.lowlevel.checkpoint_if_cancelled()
        with suppress(BlockingIOError):
            came = read_now(stream)
            await trio.lowlevel.cancel_shielded_checkpoint()
            return came
        while True:
            await trio.lowlevel.wait_readable(stream.socket.fileno())
            with suppress(BlockingIOError):
                return read_now(stream)

    async def read_more(self: Any) -> bytes:
        async with self.read_lock:
            if self.stream.socket.fileno() < 0:
                return b""
            try:
                return await read_socket(self.stream)
            except trio.ClosedResourceError:
                return b""
            except OSError as error:
                raise ConnectionClosedError(f"the connection is lost: {error}") from error

    async def read(self: Any, n: int | None = None) -> bytes:
        ahead: bytes = getattr(self, "ahead", b"") or await read_more(self)
        count = len(ahead) if n is None else n
        self.ahead = ahead[count:]
        return ahead[:count]

    _replace(TrioTCPStream, "read", read)


def d13_plain_frames_take_no_detour() -> None:
    """0.8.1 takes two locks, a timeout and many log texts to pass a frame to a stream."""
    handle_incoming = yamux.Yamux.handle_incoming

    async def handle_others(self: Any) -> None:
        self.secured_conn = PlainFrames(self, self.secured_conn, WINDOW_BYTES_MAX)
        await handle_incoming(self)

    _replace(yamux.Yamux, "handle_incoming", handle_others)


def d14_what_has_come_is_read_at_once() -> None:
    """0.8.1 takes a lock and formats log texts for each read of a stream."""
    read_slowly = yamux.YamuxStream.read

    async def read(self: Any, n: int | None = -1) -> bytes:
        conn = self.conn
        while not (self.recv_closed or self.closed or conn.event_shutting_down.is_set()):
            buffer, event = (
                conn.stream_buffers.get(self.stream_id),
                conn.stream_events.get(self.stream_id),
            )
            if buffer is None or event is None:
                break
            if buffer:
                some = bytes(buffer[:n] if n and n > 0 else buffer)
                del buffer[: len(some)]
                await self._auto_tune_and_send_window_update(bytes_read=len(some))
                return some
            await event.wait()
            if event is conn.stream_events.get(self.stream_id):
                conn.stream_events[self.stream_id] = trio.Event()
        return await read_slowly(self, n)

    _replace(yamux.YamuxStream, "read", read)


def d15_locks_that_are_free_are_taken_at_once() -> None:
    """0.8.1 takes four locks for a read or a write, and each lets all other tasks run first."""
    _quicken(NetStream, "_state_lock")
    _quicken(yamux.Yamux, "_write_lock")
    _quicken(TrioTCPStream, "write_lock")
    _quicken(TrioTCPStream, "read_lock")


def d16_packets_of_noise_take_no_detour() -> None:
    """0.8.1 takes a dozen calls and log texts for a packet, and reads one packet at a time."""
    write_long = NoiseTransportReadWriter.write_msg

    async def read_msg(self: Any, prefix_encoded: bool = False) -> bytes:  # noqa: ARG001
        came: bytes = getattr(self, "ahead", b"")
        while (end := _packet_end(came, 0)) is None:
            more = await self.read_writer.read_write_closer.read()
            if not more:
                raise IncompleteReadError(
                    f"an end after {len(came)} bytes of a packet",
                    expected_bytes=SIZE_NOISE_MESSAGE_LEN,
                    received_bytes=len(came),
                )
            self.ahead = came = came + more  # A read that is cancelled loses nothing.
        found, start = [], 0
        while end is not None:
            found.append(self.decrypt(came[start + SIZE_NOISE_MESSAGE_LEN : end]))
            start, end = end, _packet_end(came, end)
        self.ahead = came[start:]
        return b"".join(found)

    async def write_msg(self: Any, msg: bytes, prefix_encoded: bool = False) -> None:
        if len(msg) > MAX_PLAINTEXT_LENGTH:
            await write_long(self, msg, prefix_encoded)
            return
        packet = self.encrypt(msg)
        head = len(packet).to_bytes(SIZE_NOISE_MESSAGE_LEN, "big")
        await self.read_writer.read_write_closer.write(head + packet)

    _replace(NoiseTransportReadWriter, "read_msg", read_msg)
    _replace(NoiseTransportReadWriter, "write_msg", write_msg)


def _packet_end(came: bytes, start: int) -> int | None:
    """The end of the packet of Noise that begins here, if it is complete."""
    body = start + SIZE_NOISE_MESSAGE_LEN
    end = body + int.from_bytes(came[start:body], "big")
    return end if body <= len(came) and end <= len(came) else None


class _ReadBuffer(threading.local):
    """A buffer for each thread: other threads run during a read, and may run nodes too."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(READ_BYTES))


class _QuickLock:
    """A lock that is a checkpoint only if it is held by another task."""

    def __init__(self) -> None:
        self._lock = trio.Lock()

    async def __aenter__(self) -> None:
        try:
            self._lock.acquire_nowait()
        except trio.WouldBlock:
            await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


def _quicken(owner: Any, lock: str) -> None:
    make = owner.__init__

    def make_with_quick_lock(self: Any, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        _replace(self, lock, _QuickLock())

    _replace(owner, "__init__", make_with_quick_lock)


def _data_header(stream: int, length: int) -> bytes:
    return struct.pack(yamux.YAMUX_HEADER_FORMAT, 0, yamux.TYPE_DATA, 0, stream, length)


def _replace(owner: Any, name: str, replacement: Any) -> None:
    if not hasattr(owner, name):
        raise SmartPubSubError(f"libp2p {VERSION} has no {name} to be patched")
    setattr(owner, name, replacement)
