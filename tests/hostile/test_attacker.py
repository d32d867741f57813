"""The harness does what tests of attacks rely on."""

from __future__ import annotations

from pathlib import Path

from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.protocols.codecs import KADEMLIA
from tests.hostile.attacker import attackers, contact_of, nodes, works
from tests.node.hosts import eventually, run


def test_an_attacker_is_answered_and_asked_as_any_peer(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 2) as (target, other), attackers(target) as (attacker,):
            answer = await attacker.ask(target, Message(Kind.FIND_NODE, b"surf"))
            assert isinstance(answer, Message)
            assert contact_of(other).peer in [contact.peer for contact in answer.closer]
            await eventually(lambda: attacker.received(Message, target))
            assert attacker.is_connected(target)

            await attacker.write(target, KADEMLIA, b"\xff" * 64)
            await eventually(lambda: target._engine.host.counts.garbage)
            assert await works(target, other)
            assert await works(target)

    run(main)
