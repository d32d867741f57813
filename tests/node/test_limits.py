"""What is beyond a limit of a host is refused and counted, and whoever sent it notices."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import trio

from smartpubsub import Node, Predicate
from smartpubsub.kademlia import messages as kad
from smartpubsub.kademlia.messages import Kind, Message, Record
from smartpubsub.kademlia.protobuf import WireError
from smartpubsub.kademlia.settings import Settings
from smartpubsub.node.configuration import NodeConfig, wire_limits
from smartpubsub.node.errors import LimitError
from smartpubsub.node.transport.frames import FrameReader
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.streams import UnreachableError
from smartpubsub.predicates import PredicateError
from smartpubsub.protocols.codecs import KADEMLIA
from smartpubsub.protocols.registry import codecs_of
from smartpubsub.protocols.scoutsubs import messages as scout
from smartpubsub.protocols.scoutsubs.messages import WHOLE, Announce, Bundle, Probe, Pull
from smartpubsub.protocols.scoutsubs.spec import SCOUTSUBS, scoutsubs_codec
from tests.node import hosts
from tests.node.hosts import LOOPBACK, connections, eventually, run
from tests.node.test_garbage import has_ended, stranger_at

QUESTION = kad.encode(Message(Kind.FIND_NODE, b"surf"))


def test_a_message_that_is_too_long_is_refused_and_counted(tmp_path: Path) -> None:
    async def main() -> None:
        config = NodeConfig(data=tmp_path, listen=(LOOPBACK,), message_bytes_max=2_000)
        async with Node(config=config) as node, connections() as stranger:
            host = node._engine.host
            await stranger.dial(host.own.peer, host.own.addresses[0])
            stream = await stranger.open(host.own.peer, SCOUTSUBS)
            await stream.write(scout.encode(Bundle((Pull("s" * 999),))) * 3)
            await eventually(lambda: host.counts.received_kinds["scoutsubs/pull"] == 3)
            await stream.write(scout.encode(Bundle((Pull("s" * 999),) * 3)))

            assert await has_ended(stream)
            assert (host.counts.refused_large, host.counts.garbage) == (1, 0)
            assert host.garbage == {stranger.peer: 1}

            with pytest.raises(LimitError, match=r"of 1,001 bytes: .* at most 1,000 bytes"):
                await node.publish("surf", bytes(1_001))

    run(main)


def test_whoever_sends_too_fast_waits_and_is_counted() -> None:
    async def main() -> None:
        node = hosts.Node(settings=HostSettings(messages_per_s_max=2))
        async with stranger_at(node) as stranger:
            stream = await stranger.open(node.host.own.peer, KADEMLIA)
            began = trio.current_time()
            await stream.write(QUESTION * 5)
            frames = FrameReader(stream, 1 << 20)
            for _ in range(5):
                assert await frames.next() is not None

            # A second's worth comes at once and the rest at its time; nothing is lost.
            assert trio.current_time() - began >= 1
            assert 1 <= node.host.counts.delayed <= 3  # Fewer where it is slow by itself.
            assert node.host.counts.refused_kinds["kad/find_node"] == node.host.counts.delayed
            assert node.host.counts.refused_rate == 0

    run(main)


def test_whoever_sends_far_too_fast_loses_the_stream() -> None:
    flood = scout.encode(Bundle((Probe(1),) * 500))

    async def main() -> None:
        node = hosts.Node("scoutsubs", settings=HostSettings(messages_per_s_max=50))
        async with stranger_at(node) as stranger:
            stream = await stranger.open(node.host.own.peer, SCOUTSUBS)
            await stream.write(flood * 2)

            assert await has_ended(stream)
            assert node.host.counts.refused_rate == 1
            assert node.host.counts.received_kinds["scoutsubs/probe"] == 500
            # Another kind is another matter, and so is another peer.
            other = await stranger.open(node.host.own.peer, KADEMLIA)
            await other.write(QUESTION)
            assert await FrameReader(other, 1 << 20).next() is not None

    run(main)


def test_a_new_connection_does_not_make_a_rate_higher() -> None:
    flood = scout.encode(Bundle((Probe(1),) * 500))

    async def main() -> None:
        node = hosts.Node("scoutsubs", settings=HostSettings(messages_per_s_max=50))
        async with stranger_at(node) as stranger:
            peer, address = node.host.own.peer, node.host.own.addresses[0]
            await (await stranger.open(peer, SCOUTSUBS)).write(flood)
            await eventually(lambda: node.host.counts.received_kinds["scoutsubs/probe"] == 500)
            await stranger.close(peer)
            await eventually(lambda: node.host.connections.count == 0)
            await stranger.dial(peer, address)
            again = await stranger.open(peer, SCOUTSUBS)
            await again.write(flood)

            assert await has_ended(again)
            assert node.host.counts.refused_rate == 1

    run(main)


def test_a_connection_too_many_is_refused_and_counted() -> None:
    async def main() -> None:
        node = hosts.Node(settings=HostSettings(connection_count_max=1, connection_count_high=1))
        async with stranger_at(node), connections() as another:
            with pytest.raises(UnreachableError):
                await another.dial(node.host.own.peer, node.host.own.addresses[0])

            assert node.host.counts.refused_connections == 1
            assert node.host.connections.count == 1

    run(main)


@pytest.mark.parametrize("protocol", ["scoutsubs", "floodsub", "gossipsub"])
def test_all_that_a_node_speaks_keeps_to_its_limits(protocol: str) -> None:
    usual, small = (wire_limits(NodeConfig(message_bytes_max=n)) for n in (4 << 20, 10_000))

    assert max(codec.message_bytes_max for codec in codecs_of(protocol, usual)) == 4 << 20
    assert max(codec.message_bytes_max for codec in codecs_of(protocol, small)) == 10_000


def test_predicates_have_as_many_attributes_as_a_node_takes(tmp_path: Path) -> None:
    six = "a/b/c/d/e/f"

    async def main() -> None:
        usual = NodeConfig(data=tmp_path / "a", listen=(LOOPBACK,))
        async with Node(config=usual) as node:
            with pytest.raises(PredicateError):
                await node.publish(six)
            with pytest.raises(PredicateError, match="more than 5 attributes; use fewer"):
                await node.publish(Predicate.parse(six, 6))
            with pytest.raises(PredicateError, match="more than 5 attributes; use fewer"):
                node.subscribe(Predicate.parse(six, 6))
        more = NodeConfig(data=tmp_path / "b", listen=(LOOPBACK,), attribute_count_max=6)
        async with Node(config=more) as node, node.subscribe(six) as events:
            await node.publish(six, b"taken")
            assert (await anext(events)).payload == b"taken"

    run(main)


def test_an_attribute_too_many_from_others_is_garbage() -> None:
    six, five = (Predicate.parse(text, 6) for text in ("a/b/c/d/e/f", "a/b/c/d/e"))
    codec, wider = (scoutsubs_codec(wire_limits(NodeConfig(attribute_count_max=n))) for n in (5, 6))

    def announcing(predicate: Predicate) -> bytes:
        part = Announce("a", 1, 1, WHOLE, (predicate,), (), None, (), False)
        return scout.encode(Bundle((part,)))

    assert codec.decode(announcing(five)) == wider.decode(announcing(five))
    assert wider.decode(announcing(six)).parts[0].added == (six,)
    with pytest.raises(WireError, match="a predicate that cannot be read"):
        codec.decode(announcing(six))


def test_a_subscription_that_storage_has_no_room_for_is_refused(tmp_path: Path) -> None:
    def long(number: int) -> str:
        return f"{number}{'s' * 1_000}"

    async def main() -> None:
        config = NodeConfig(data=tmp_path, listen=(LOOPBACK,), stored_bytes_max=1 << 20)
        async with Node(config=config) as node:
            storage = node._engine._storage
            storage.apply([(b"x", bytes((1 << 20) - (1 << 16) - 3_000))])
            async with node.subscribe(long(1)), node.subscribe(long(2)):
                with pytest.raises(
                    LimitError, match=r"no room for 1,001 bytes .* stored_bytes_max"
                ):
                    async with node.subscribe(long(3)):
                        pass
                assert len(await node.subscriptions()) == 2
                await node.publish("a", b"goes on", wait="all")
            async with node.subscribe(long(4)):
                pass

    run(main)


def test_a_value_that_storage_has_no_room_for_is_refused(tmp_path: Path) -> None:
    """Others are told by an answer without the value."""

    async def main() -> None:
        config = NodeConfig(data=tmp_path, listen=(LOOPBACK,), stored_bytes_max=1 << 20)
        async with Node(config=config) as node, connections() as stranger:
            host = node._engine.host
            await stranger.dial(host.own.peer, host.own.addresses[0])
            stream = await stranger.open(host.own.peer, KADEMLIA)
            frames = FrameReader(stream, 1 << 20)
            kept = 0
            for number in range(6):
                value = number.to_bytes(2, "big") * 30_000
                name = b"\x12\x20" + hashlib.sha256(value).digest()
                await stream.write(
                    kad.encode(Message(Kind.PUT_VALUE, name, record=Record(name, value)))
                )
                answer = await frames.next()
                assert answer is not None
                kept += kad.decode(answer, Settings()).record is not None

            assert kept == 2  # So much is for the values of one peer, at least.
            assert node._engine.core.kademlia.refused == 4

    run(main)
