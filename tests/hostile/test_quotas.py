"""A peer that fills a node's storage fills its own share of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from smartpubsub import Node, Predicate
from smartpubsub.kademlia.messages import Kind, Message, Record
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.protocols.fastdelivery.messages import Join, Packet, Request
from smartpubsub.protocols.fastdelivery.signatures import request_bytes
from tests.hostile.attacker import Attacker, attackers, nodes, works
from tests.node.hosts import eventually, run

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


GROUP = Predicate.parse("surf/price[0,999]")


def joining(attacker: Attacker, predicate_count: int, version: int = 1) -> Packet:
    wanted = tuple(
        Predicate.parse(f"surf/price={n}/{'x' * 900}{n}") for n in range(predicate_count)
    )
    bare = Request(attacker.contact, wanted, "here", 10, version, b"")
    signature = Ed25519Signing(attacker.identity).sign_statement(lambda: request_bytes(bare))
    return Packet(version, Join(GROUP, bare._replace(signature=signature), b""))


def test_members_of_a_group_take_a_limited_room_of_its_owner(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            nodes(tmp_path, stored_bytes_max=TINY) as (target,),
            attackers(target, number=8) as made,
        ):
            group = target.group(str(GROUP))
            await group.create()
            (account,) = [
                account
                for account in target._engine.core.kademlia.ledger
                if account.name == "members of groups"
            ]
            for attacker in made:
                await attacker.send(target, joining(attacker, 400))
            await eventually(lambda: account.refused >= len(made))
            for attacker in made:  # Each within its share, until all is taken.
                await attacker.send(target, joining(attacker, 4, version=2))
            await eventually(lambda: account.user_count + account.refused >= 2 * len(made))
            assert account.user_count >= 1
            assert account.size <= account.size_max == TINY // 32
            (known,) = await target.groups()
            assert known.member_count == account.user_count
            assert target.failures().restarts == 0
            await made[0].send(target, joining(made[0], 0, version=3))  # It leaves.
            await eventually(lambda: account.user_count < known.member_count)
            assert await works(target)

    run(main)
