"""The defects of py-libp2p 0.8.1 do not show on real connections of this machine with itself."""

import logging
import os
import socket
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib import metadata
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
from libp2p.custom_types import TProtocol
from libp2p.io.exceptions import IncompleteReadError
from libp2p.io.trio import TrioTCPStream
from libp2p.network.exceptions import SwarmException
from libp2p.network.swarm import Swarm
from libp2p.peer.id import ID
from libp2p.security.insecure.transport import PLAINTEXT_PROTOCOL_ID, InsecureTransport
from libp2p.security.noise.io import NoisePacketReadWriter, NoiseTransportReadWriter
from libp2p.stream_muxer.exceptions import MuxedStreamError
from libp2p.stream_muxer.yamux import yamux
from libp2p.transport.upgrader import TransportUpgrader
from multiaddr import Multiaddr
from trio.testing import MockClock

from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.transport import patches
from smartpubsub.node.transport.connections import PING, Connections, ListenError
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.streams import STREAM_ERRORS, Stream, UnreachableError
from smartpubsub.seam import Peer
from tests.node.hosts import connections, eventually, run

if TYPE_CHECKING:
    from libp2p.abc import IRawConnection

PROTOCOL = "/test/1.0.0"


def swarm_of(there: Connections) -> Swarm:
    return there._swarm


def know(here: Connections, there: Connections) -> ID:
    """Have libp2p itself know where a peer is."""
    addresses = [Multiaddr(address) for address in there.addresses]
    swarm_of(here).peerstore.add_addrs(ID(there.peer), addresses, 60)
    return ID(there.peer)


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def yamux_between(here: Connections, there: Connections) -> yamux.Yamux:
    (connection,) = swarm_of(here).get_connections(ID(there.peer))
    muxed = connection.muxed_conn
    assert isinstance(muxed, yamux.Yamux)
    return muxed


def test_the_installed_version_is_the_one_that_is_patched() -> None:
    patches.apply()

    assert metadata.version("libp2p") == patches.VERSION


def test_another_version_is_refused() -> None:
    with pytest.raises(SmartPubSubError, match=r"libp2p 0\.9\.0 is installed.*on 0\.8\.1 only"):
        patches.apply("0.9.0")


def test_d1_listener_takes_connections_for_ever() -> None:
    async def main() -> None:
        few = HostSettings(connection_count_max=2, connection_count_high=2)
        async with connections(few) as server:
            for _ in range(4):
                async with connections() as client:
                    await client.dial(server.peer, server.addresses[0])
                    await eventually(lambda: server.count == 1)
                await eventually(lambda: swarm_of(server)._inbound_limiter.borrowed_tokens == 0)

    run(main)


def test_d2_noise_only() -> None:
    async def main() -> None:
        async with connections() as server, connections() as liar:
            plain = InsecureTransport(liar._keys)
            swarm_of(liar).upgrader = TransportUpgrader(
                {PLAINTEXT_PROTOCOL_ID: plain}, {TProtocol(yamux.PROTOCOL_ID): yamux.Yamux}
            )
            with pytest.raises(UnreachableError):
                await liar.dial(server.peer, server.addresses[0])
            assert server.count == 0

    run(main)


def test_d3_dial_does_not_wait() -> None:
    async def main() -> float:
        async with connections() as server, connections() as client:
            peer = know(client, server)
            started_at = trio.current_time()
            await swarm_of(client).dial_peer(peer)
            return trio.current_time() - started_at

    # This clock moves only if everybody waits for it.
    assert run(main, MockClock(autojump_threshold=0.2)) == 0


def test_d4_write_waits_for_a_slow_reader() -> None:
    clock = MockClock(rate=1)
    content = bytes(1 << 20)
    read: list[int] = []

    async def read_late(_: Peer, stream: Stream) -> None:
        clock.rate = 100
        resting_until = trio.current_time() + 20
        await eventually(lambda: trio.current_time() > resting_until)
        clock.rate = 1
        while sum(read) < len(content):
            read.append(len(await stream.read(1 << 16)))

    async def main() -> None:
        async with connections() as server, connections() as client:
            server.serve(PROTOCOL, read_late)
            await client.dial(server.peer, server.addresses[0])
            stream = await client.open(server.peer, PROTOCOL)
            await stream.write(content)
            await eventually(lambda: sum(read) == len(content))

    run(main, clock)


class Pieces:
    """Gives one byte at a time, and then nothing."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.reads = 0

    async def read(self, n: int | None = None) -> bytes:
        self.reads += 1
        assert n
        piece, self.content = self.content[:1], self.content[1:]
        return piece


def test_d5_read_takes_as_many_pieces_as_there_are() -> None:
    content = bytes(range(256)) * 2
    assert trio.run(yamux.read_exactly, Pieces(content), len(content)) == content  # type: ignore[attr-defined]

    ended = Pieces(b"short")
    with pytest.raises(IncompleteReadError) as caught:
        trio.run(yamux.read_exactly, ended, 6)  # type: ignore[attr-defined]
    assert (caught.value.received_bytes, ended.reads) == (5, 6)


def test_d6_stream_too_many_is_refused() -> None:
    async def main() -> None:
        generous = HostSettings(stream_count_max=1_000)
        async with connections(generous) as server, connections() as client:
            await client.dial(server.peer, server.addresses[0])
            connection = yamux_between(client, server)
            streams = [await connection.open_stream() for _ in range(256)]
            with pytest.raises(MuxedStreamError, match="too many"):
                await connection.open_stream()

            await streams[0].reset()
            await connection.open_stream()

    run(main)


def test_d7_failed_dial_may_be_repeated() -> None:
    async def main() -> None:
        port = free_port()
        async with connections() as client, connections() as other:
            peer = ID(other.peer)
            swarm_of(client).peerstore.add_addr(peer, Multiaddr(f"/ip4/127.0.0.1/tcp/{port}"), 60)
            with pytest.raises(SwarmException):
                await swarm_of(client).dial_peer(peer)

            assert await swarm_of(other).listen(Multiaddr(f"/ip4/127.0.0.1/tcp/{port}"))
            assert await swarm_of(client).dial_peer(peer)

    run(main)


def test_d8_windows_are_kept_to() -> None:
    async def read_never(_: Peer, __: Stream) -> None:
        await trio.sleep_forever()

    async def main() -> None:
        gone: list[Peer] = []

        def on_connection(peer: Peer, is_there: bool) -> None:
            if not is_there:
                gone.append(peer)

        async with connections(on_connection=on_connection) as server, connections() as client:
            server.serve(PROTOCOL, read_never)
            await client.dial(server.peer, server.addresses[0])
            stream = await client.open(server.peer, PROTOCOL)
            stream.muxed_stream.send_window = 1 << 30  # type: ignore[attr-defined]
            with pytest.raises(STREAM_ERRORS):
                await stream.write(bytes(64 << 20))
            await eventually(lambda: gone)

    run(main)


def test_d9_port_is_not_shared() -> None:
    async def main() -> None:
        port = free_port()
        async with connections(listen=f"/ip4/127.0.0.1/tcp/{port}"):
            with pytest.raises(BaseExceptionGroup) as caught:
                async with connections(listen=f"/ip4/127.0.0.1/tcp/{port}"):
                    pass
            assert caught.group_contains(ListenError, match=f"cannot listen on .*{port}")

    run(main)


def test_d10_nothing_is_logged_unasked(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for logger in (logging.getLogger(), logging.getLogger("libp2p")):
        silent = [h for h in logger.handlers if type(h) is logging.NullHandler]
        monkeypatch.setattr(logger, "handlers", silent)  # Those of pytest are not there usually.

    async def main() -> None:
        async with connections() as client, connections() as other:
            await client.dial(other.peer, other.addresses[0])
            await client.close(other.peer)
            address = Multiaddr(f"/ip4/127.0.0.1/tcp/{free_port()}").to_bytes()
            with pytest.raises(UnreachableError):
                await client.dial(other.peer, address)

    run(main)

    assert capfd.readouterr() == ("", "")
    assert logging.getLogger().handlers == []


def test_d11_window_updates_are_batched(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    content = bytes(1 << 20)
    received: list[int] = []
    send = yamux.YamuxStream.send_window_update

    async def note_and_send(
        self: yamux.YamuxStream, increment: int, skip_lock: bool = False
    ) -> None:
        told.append(increment)
        await send(self, increment, skip_lock)

    async def read_all(_: Peer, stream: Stream) -> None:
        while sum(received) < len(content):
            received.append(len(await stream.read(1 << 16)))

    async def main() -> None:
        async with connections() as server, connections() as client:
            server.serve(PROTOCOL, read_all)
            await client.dial(server.peer, server.addresses[0])
            monkeypatch.setattr(yamux.YamuxStream, "send_window_update", note_and_send)
            stream = await client.open(server.peer, PING)
            for _ in range(100):
                await stream.write(bytes(32))
                assert await stream.read(32) == bytes(32)
            assert told == []
            stream = await client.open(server.peer, PROTOCOL)
            await stream.write(content)
            await eventually(lambda: sum(received) == len(content))
            assert 1 <= len(told) <= 16
            assert sum(told) >= len(content) - yamux.DEFAULT_WINDOW_SIZE

    run(main)


async def echoed(client: Connections, server: Connections, contents: list[bytes]) -> None:
    """Send bytes and get them back, on a stream that is open already."""
    stream = await client.open(server.peer, PING)
    for content in contents:
        await stream.write(content)
        back = b""
        while len(back) < len(content):
            back += await stream.read(len(content) - len(back))
        assert back == content


def calls_of(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[object]:
    """Notes the calls of a method from now on."""
    called: list[object] = []
    method = getattr(owner, name)

    async def note_and_call(self: object, *arguments: object) -> object:
        called.append(self)
        return await method(self, *arguments)

    monkeypatch.setattr(owner, name, note_and_call)
    return called


def test_d12_socket_reads_are_buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with connections() as server, connections() as client:
            await client.dial(server.peer, server.addresses[0])
            await echoed(client, server, [bytes(32)])
            asked: list[int] = []
            read = os.readv

            def note_and_read(file: int, buffers: list[memoryview]) -> int:
                asked.append(file)
                return read(file, buffers)

            monkeypatch.setattr(os, "readv", note_and_read)
            await echoed(client, server, [bytes([n]) * 32 for n in range(100)])
            # There and back, each before and after the wait for it, and to agree on the stream.
            assert 2 * 100 <= len(asked) <= 4 * 100 + 40

    run(main)


def test_d12_no_read_takes_a_large_block_of_the_heap() -> None:
    async def main() -> None:
        async with connections() as server, connections() as client:
            await client.dial(server.peer, server.addresses[0])
            await echoed(client, server, [bytes(32)])
            tracemalloc.start()
            try:
                before, _ = tracemalloc.get_traced_memory()
                await echoed(client, server, [bytes([n]) * 32 for n in range(10)])
                _, most = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert most - before < patches.READ_BYTES

    run(main)


def test_d12_threads_do_not_share_what_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    patches.apply()
    both_have_read = threading.Barrier(2, timeout=60)
    readv = os.readv

    def read_and_wait(file: int, buffers: list[memoryview]) -> int:
        length = readv(file, buffers)
        both_have_read.wait()
        return length

    async def read(connected: socket.socket) -> bytes:
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(connected))
        return await TrioTCPStream(stream).read()

    monkeypatch.setattr(os, "readv", read_and_wait)
    with ExitStack() as stack, ThreadPoolExecutor(2) as threads:
        reads = []
        for sent in (b"one", b"other"):
            near, far = map(stack.enter_context, socket.socketpair())
            far.sendall(sent)
            near.setblocking(False)
            reads.append(threads.submit(trio.run, read, near))
        assert [reading.result() for reading in reads] == [b"one", b"other"]


def test_d13_plain_frames_take_no_detour(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with connections() as server, connections() as client:
            await client.dial(server.peer, server.addresses[0])
            detours = calls_of(monkeypatch, yamux.Yamux, "_read_data_body")
            await echoed(client, server, [bytes([n]) * 32 for n in range(100)])
            assert len(detours) <= 10
            # Frames that come in several pieces are no plain ones.
            await echoed(client, server, [bytes(range(256)) * 300])

    run(main)


def test_d14_what_has_come_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with connections() as server, connections() as client:
            await client.dial(server.peer, server.addresses[0])
            slow = calls_of(monkeypatch, yamux.Yamux, "read_stream")
            await echoed(client, server, [bytes([n]) * 32 for n in range(100)])
            assert slow == []
            stream = await client.open(server.peer, PING)
            await server.close(client.peer)
            with pytest.raises(STREAM_ERRORS):
                await stream.read(1)

    run(main)


def test_d15_locks_that_are_free_are_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[None] = []
    turns_at_sending: list[int] = []
    send_all = trio.SocketStream.send_all

    async def note_and_send(self: trio.SocketStream, data: bytes) -> None:
        turns_at_sending.append(len(turns))
        await send_all(self, data)

    async def take_turns() -> None:
        while True:
            turns.append(None)
            await trio.lowlevel.checkpoint()

    async def main() -> None:
        async with connections() as server, connections() as client:
            await client.dial(server.peer, server.addresses[0])
            stream = await client.open(server.peer, PING)
            monkeypatch.setattr(trio.SocketStream, "send_all", note_and_send)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(take_turns)
                before = len(turns)
                await stream.write(bytes(32))
                assert turns_at_sending[0] == before
                nursery.cancel_scope.cancel()

    run(main)


class Pipe:
    """A connection from which bytes come in pieces of some length."""

    def __init__(self, length: int) -> None:
        self.came = b""
        self._length = length

    async def write(self, data: bytes) -> None:
        self.came += data

    async def read(self, _: int | None = None) -> bytes:
        piece, self.came = self.came[: self._length], self.came[self._length :]
        return piece


class Swapping(NoiseTransportReadWriter):
    """Noise with another cipher, which swaps upper and lower case."""

    def encrypt(self, data: bytes) -> bytes:
        return data.swapcase()

    def decrypt(self, data: bytes) -> bytes:
        return data.swapcase()


@pytest.mark.parametrize("length", [1, 2, 3, 7, 1 << 20])
def test_d16_packets_of_noise_take_no_detour(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    patches.apply()
    sent = [b"Some", b"", b"bytes", b"Longer" * 12_000]

    async def main() -> None:
        pipe = Pipe(length)
        noise = Swapping(cast("IRawConnection", pipe), cast("Any", None))
        detours = calls_of(monkeypatch, NoisePacketReadWriter, "read_msg")
        for message in sent:
            await noise.write_msg(message)
        packets = pipe.came
        assert packets[:6] == b"\x00\x04sOME"
        expected, back, reads = b"".join(sent), b"", 0
        while len(back) < len(expected):
            back += await noise.read_msg()
            reads += 1
        assert back == expected
        assert reads == (1 if length > len(packets) else 5)
        with pytest.raises(IncompleteReadError) as ended:
            await noise.read_msg()
        assert ended.value.is_clean_close
        assert not detours

        pipe.came = packets[:3]
        with pytest.raises(IncompleteReadError) as broken:
            await noise.read_msg()
        assert not broken.value.is_clean_close

    trio.run(main)
