"""A network that asks for a proof of work in peer ids: others connect, and get no role."""

from pathlib import Path

import pytest

from smartpubsub import Node, SmartPubSubError
from smartpubsub.kademlia.id_work import has_work
from smartpubsub.node.identity import Identity, keep_identity, peer_text
from tests.node.hosts import LOOPBACK, eventually, run

BITS = 8


def idle_identity() -> Identity:
    while has_work((identity := Identity.new()).peer, BITS):
        pass
    return identity


def test_a_peer_without_the_work_is_in_no_table(tmp_path: Path) -> None:
    stranger = idle_identity()
    keep_identity(tmp_path / "stranger", stranger)

    async def main() -> None:
        async with (
            Node(data=tmp_path / "a", listen=[LOOPBACK], id_work_bits=BITS) as a,
            Node(
                data=tmp_path / "b", listen=[LOOPBACK], id_work_bits=BITS, bootstrap=a.addresses
            ) as b,
            Node(data=tmp_path / "stranger", listen=[LOOPBACK], bootstrap=a.addresses) as other,
            b.subscribe("surf") as events,
        ):
            # It has joined by its own table, which has the other two.
            await eventually(lambda: len(other._engine.core.kademlia.table) == 2)
            await a.publish("surf", b"hello", wait="all")
            assert (await anext(aiter(events))).payload == b"hello"
            for node, peer in ((a, b), (b, a)):
                (known,) = node._engine.core.kademlia.table.contacts()
                assert peer_text(known.peer) == peer.peer_id

    run(main)


def test_a_node_without_the_work_is_told_so(tmp_path: Path) -> None:
    keep_identity(tmp_path, idle_identity())

    async def main() -> None:
        async with Node(data=tmp_path, listen=[LOOPBACK], id_work_bits=BITS):
            pass

    with pytest.raises(SmartPubSubError, match="id_work_bits = 8 asks for"):
        run(main)
