"""A peer that fills a node's storage fills its own share of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from smartpubsub import Node
from smartpubsub.kademlia.messages import Kind, Message, Record
from tests.hostile.attacker import Attacker, attackers, nodes
from tests.node.hosts import run

TINY = 1 << 20
"""A quarter of this is for the values of peers."""


async def is_kept(attacker: Attacker, node: Node, value: bytes) -> bool:
    name = b"\x12\x20" + hashlib.sha256(value).digest()
    answer = await attacker.ask(node, Message(Kind.PUT_VALUE, name, Record(name, value)))
    assert isinstance(answer, Message)
    return answer.record is not None


def test_values_of_one_peer_leave_room_for_those_of_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            nodes(tmp_path, stored_bytes_max=TINY) as (target,),
            attackers(target, number=4) as (greedy, second, third, modest),
        ):
            for attacker, count in ((greedy, 6), (second, 6), (third, 4)):
                values = [attacker.peer + bytes([n]) * 20_000 for n in range(10)]
                kept = [await is_kept(attacker, target, value) for value in values]
                assert kept.count(True) == count  # The share of a peer; then all have the same.
            # All room is taken, and the value of a peer that has less than others is kept.
            assert await is_kept(modest, target, b"modest" * 1_000)
            (account,) = [a for a in target._engine.core.kademlia.ledger if a.name == "values"]
            assert account.size <= account.size_max
            assert account.evicted > 0

    run(main)
