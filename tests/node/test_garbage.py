"""What strangers send that makes no sense costs them a stream, and the node nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from smartpubsub.kademlia import messages
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.kademlia.settings import Settings
from smartpubsub.node.transport import identify
from smartpubsub.node.transport.connections import PING, Connections
from smartpubsub.node.transport.frames import FrameReader
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.streams import STREAM_ERRORS, Stream, UnreachableError
from smartpubsub.protocols.baselines.messages import Rpc, encode
from smartpubsub.protocols.baselines.spec import FLOODSUB
from smartpubsub.protocols.codecs import KADEMLIA
from smartpubsub.protocols.scoutsubs.spec import SCOUTSUBS
from smartpubsub.seam import Effect, Event, Received
from tests.node.hosts import Node, connections, eventually, run

PROTOCOLS = pytest.mark.parametrize("protocol", [KADEMLIA, FLOODSUB, SCOUTSUBS])
QUESTION = Message(Kind.FIND_NODE, b"surf")


@asynccontextmanager
async def stranger_at(node: Node) -> AsyncIterator[Connections]:
    """A running node, and a stranger that is connected to it."""
    async with trio.open_nursery() as nursery, connections() as stranger:
        await node.start(nursery)
        await stranger.dial(node.host.own.peer, node.host.own.addresses[0])
        yield stranger
        nursery.cancel_scope.cancel()


async def has_ended(stream: Stream) -> bool:
    try:
        return await stream.read(1) == b""
    except STREAM_ERRORS:
        return True


async def is_refused(stranger: Connections, node: Node, protocol: str) -> bool:
    """Wait until a stream ends on which nothing was sent."""
    try:
        stream = await stranger.open(node.host.own.peer, protocol)
    except UnreachableError:
        return True
    return await has_ended(stream)


async def answer_to(stranger: Connections, node: Node, question: Message) -> Message:
    stream = await stranger.open(node.host.own.peer, KADEMLIA)
    await stream.write(messages.encode(question))
    frame = await FrameReader(stream, 1 << 20).next()
    assert frame is not None
    return messages.decode(frame, Settings())


@PROTOCOLS
@pytest.mark.parametrize(
    "garbage",
    [b"\x05hello", b"\xff" * 64, b"\xff\xff\xff\x7f", b"\x03\x0a\x7f\x00"],
    ids=["no message", "no length", "too long", "cut off within"],
)
def test_garbage_costs_a_stream_and_is_counted(protocol: str, garbage: bytes) -> None:
    async def main() -> None:
        node = Node()
        async with stranger_at(node) as stranger:
            stream = await stranger.open(node.host.own.peer, protocol)
            await stream.write(garbage)

            assert await has_ended(stream)
            assert node.host.counts.garbage + node.host.counts.refused_large == 1
            assert node.host.garbage == {stranger.peer: 1}
            answer = await answer_to(stranger, node, QUESTION)
            assert answer.kind is Kind.FIND_NODE

    run(main)


@PROTOCOLS
def test_a_stream_that_ends_within_a_message_is_garbage(protocol: str) -> None:
    async def main() -> None:
        node = Node()
        async with stranger_at(node) as stranger:
            stream = await stranger.open(node.host.own.peer, protocol)
            await stream.write(b"\x05he")
            await stream.close()

            await eventually(lambda: node.host.counts.garbage == 1)

    run(main)


def test_many_questions_on_one_stream_are_answered_in_order() -> None:
    names = [b"%d" % number for number in range(20)]

    async def main() -> None:
        node = Node()
        async with stranger_at(node) as stranger:
            stream = await stranger.open(node.host.own.peer, KADEMLIA)
            await stream.write(b"".join(messages.encode(Message(Kind.GET_VALUE, n)) for n in names))
            frames = FrameReader(stream, 1 << 20)
            for name in names:
                frame = await frames.next()
                assert frame is not None
                assert messages.decode(frame, Settings()).key == name

    run(main)


def test_a_peer_has_only_so_many_streams_for_a_protocol() -> None:
    async def main() -> None:
        node = Node(settings=HostSettings(stream_count_per_protocol_max=2))
        async with stranger_at(node) as stranger:
            first, _ = [await stranger.open(node.host.own.peer, FLOODSUB) for _ in range(2)]
            assert await is_refused(stranger, node, FLOODSUB)
            assert node.host.counts.refused_streams == 1

            await first.reset()
            question = Message(Kind.FIND_NODE, b"any")
            assert (await answer_to(stranger, node, question)).key == question.key

    run(main)


def test_a_connection_has_only_so_many_streams() -> None:
    async def main() -> None:
        node = Node(settings=HostSettings(stream_count_max=4))
        async with stranger_at(node) as stranger:
            for _ in range(4):
                await stranger.open(node.host.own.peer, PING)

            assert await is_refused(stranger, node, PING)
            assert node.host.counts.refused_streams == 1

    run(main)


def test_a_protocol_that_nobody_speaks_is_refused() -> None:
    async def main() -> None:
        node = Node()
        async with stranger_at(node) as stranger:
            with pytest.raises(UnreachableError):
                await stranger.open(node.host.own.peer, "/nobody/speaks/this/1.0.0")

            assert (await answer_to(stranger, node, QUESTION)).kind is Kind.FIND_NODE

    run(main)


@pytest.mark.parametrize("garbage", [b"\xff" * 100, b"\x13/multistream/1.0.0\n\x03\xff\xfe\n"])
def test_garbage_instead_of_a_protocol_costs_a_stream(garbage: bytes) -> None:
    async def main() -> None:
        node = Node()
        async with stranger_at(node) as stranger:
            (connection,) = stranger._swarm.get_connections()
            stream = await connection.new_stream()
            await stream.write(garbage)
            while not await has_ended(stream):
                pass

            assert (await answer_to(stranger, node, QUESTION)).kind is Kind.FIND_NODE

    run(main)


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 1000, b""])
def test_garbage_instead_of_a_handshake_costs_a_connection(garbage: bytes) -> None:
    async def main() -> None:
        node = Node()
        async with stranger_at(node) as stranger:
            port = int.from_bytes(node.host.own.addresses[0][-2:], "big")
            raw = await trio.open_tcp_stream("127.0.0.1", port)
            await raw.send_all(garbage)
            await raw.aclose()

            assert (await answer_to(stranger, node, QUESTION)).kind is Kind.FIND_NODE
            assert node.host.connections.count == 1

    run(main)


def test_a_peer_with_an_older_version_of_a_protocol_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        node = Node()
        async with trio.open_nursery() as nursery, connections() as stranger:
            stranger.serve("/smartpubsub/kad/1.0.0", lambda _peer, _stream: trio.sleep(0))
            await node.start(nursery)
            await stranger.dial(node.host.own.peer, node.host.own.addresses[0])
            await eventually(lambda: "incompatible version of smartpubsub" in caplog.text)
            nursery.cancel_scope.cancel()

    run(main)


def test_a_node_answers_a_ping_and_says_who_it_is() -> None:
    async def main() -> None:
        node = Node()
        async with stranger_at(node) as stranger:
            peer = node.host.own.peer
            stream = await stranger.open(peer, PING)
            await stream.write(bytes(range(32)))

            assert await stream.read(32) == bytes(range(32))
            assert (await stranger.ask_identity(peer)).addresses == node.host.own.addresses

    run(main)


def test_garbage_for_an_answer_costs_a_stream() -> None:
    async def send_garbage(_: bytes, stream: Stream) -> None:
        await stream.read(1)
        await stream.write(b"\xff" * 64)

    async def main() -> None:
        node = Node()
        async with stranger_at(node) as stranger:
            stranger.serve(KADEMLIA, send_garbage)
            stranger.serve(identify.PROTOCOL, send_garbage)
            (contact,) = [node.host.own._replace(peer=stranger.peer)]
            await node.host.do(lambda now: node.core.kademlia.join([contact], now))
            await eventually(lambda: node.host.counts.garbage)

            assert stranger.peer in node.host.connections

    run(main)


def test_messages_that_come_together_are_handled_up_to_the_first_that_makes_no_sense() -> None:
    async def main() -> None:
        node = Node()
        async with stranger_at(node) as stranger:
            heard: list[object] = []
            handle = node.core.handle

            def noted(event: Event, now: int) -> list[Effect]:
                if isinstance(event, Received):
                    heard.append(event.message)
                return handle(event, now)

            node.core.handle = noted  # type: ignore[method-assign]
            said = [Rpc(subscribe=n % 2 == 0) for n in range(5)]
            sent = [encode(rpc) for rpc in said]
            stream = await stranger.open(node.host.own.peer, FLOODSUB)
            await stream.write(b"".join(sent) + b"\x05hello" + sent[0])

            assert await has_ended(stream)
            await eventually(lambda: heard == said)
            assert node.host.counts.garbage == 1
            assert node.host.counts.received_kinds["pubsub/rpc"] == len(said)

    run(main)


@pytest.mark.contains_failures
def test_of_messages_that_come_together_a_core_may_fail_on_one() -> None:
    async def main() -> None:
        node = Node()
        async with stranger_at(node) as stranger:
            heard: list[object] = []

            def fail_on_false(event: Event, now: int) -> list[Effect]:  # noqa: ARG001
                if isinstance(event, Received):
                    heard.append(event.message)
                    if event.message == Rpc(subscribe=False):
                        raise ValueError("as planned")
                return []

            node.host._on_restart = lambda _: []
            node.core.handle = fail_on_false  # type: ignore[method-assign]
            said = [Rpc(subscribe=True), Rpc(subscribe=False), Rpc(subscribe=True)]
            stream = await stranger.open(node.host.own.peer, FLOODSUB)
            await stream.write(b"".join(map(encode, said)))

            await eventually(lambda: len(heard) >= 2)
            await eventually(lambda: node.host.bans.is_banned(stranger.peer, trio.current_time()))

    run(main)
