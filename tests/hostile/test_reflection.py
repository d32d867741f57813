"""No peer can have a node open many connections to a machine that is no peer."""

from __future__ import annotations

from pathlib import Path
from random import Random

import trio

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.node.transport.hearsay import FAILURES_MAX, FAILURES_PER_S
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.seam import Answer, Asked, Effect, Event
from smartpubsub.testbed.hostile.attacker import polite
from tests.hostile.attacker import attackers, nodes, works
from tests.node.hosts import run
from tests.node.test_dialer import address_at

NAMED = 100
"""As many peers as an answer may name."""
ANSWERS = 20


def invented(rng: Random, address: bytes) -> tuple[Contact, ...]:
    ids = [b"\x00\x24\x08\x01\x12\x20" + rng.randbytes(32) for _ in range(NAMED)]
    return tuple(Contact.of(id, (address,)) for id in ids)


def test_invented_peers_at_one_address_cost_it_few_connections(tmp_path: Path) -> None:
    """Without the limit there were 33 connections a second, for one answer every three seconds."""
    rng, connection_count, answer_count = Random(1), 0, 0

    async def accept(stream: trio.SocketStream) -> None:
        nonlocal connection_count
        connection_count += 1
        await stream.aclose()

    async def main() -> None:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        address = address_at(listener.socket.getsockname()[1])

        def lie(event: Event, now: int) -> list[Effect]:
            nonlocal answer_count
            if not isinstance(event, Asked) or not isinstance(event.message, Message):
                return []
            if event.message.kind is not Kind.FIND_NODE:
                return polite(event, now)
            answer_count += 1
            named = Message(Kind.FIND_NODE, event.message.key, closer=invented(rng, address))
            return [Answer(event.peer, named, event.number)]

        async with (
            nodes(tmp_path, 2) as (target, other),
            attackers() as (attacker,),
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(trio.serve_listeners, accept, [listener])
            attacker.script = lie
            await attacker.connect(target)
            await attacker.ask(target, Message(Kind.FIND_NODE, b"surf"))
            began_s, number = trio.current_time(), 0
            with trio.fail_after(120):
                while answer_count < ANSWERS:
                    number += 1
                    with trio.move_on_after(5):
                        await target.publish(f"new{number}")
            took_s = trio.current_time() - began_s
            allowed = FAILURES_MAX + FAILURES_PER_S * took_s + HostSettings().dial_count_max
            assert connection_count <= 2 * allowed, "each of two nodes asks the liar"
            assert target._engine.host.counts.unheeded > 0
            assert await works(target, other)
            nursery.cancel_scope.cancel()

    run(main)
