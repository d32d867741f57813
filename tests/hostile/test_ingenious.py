"""Attacks that keep to the rules of one message, and rely on number, time or absurd values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from smartpubsub import Node
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.node.transport.streams import STREAM_ERRORS, UnreachableError
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.departure import Goodbye
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.scoutsubs.messages import (
    Audit,
    Bundle,
    Elsewhere,
    Piece,
    PullOwn,
    Raise,
    Recall,
)
from smartpubsub.protocols.scoutsubs.new_trees import RATE, WAITING_MAX
from smartpubsub.protocols.scoutsubs.spec import SCOUTSUBS
from smartpubsub.testbed.hostile.attacks import announcement
from tests.hostile.attacker import Attacker, attackers, nodes, works
from tests.node.hosts import eventually, run

MANY = 40
NOWHERE = b"\x04\x7f\x00\x00\x01\x06\x00\x07"
"""The address of port 7 of this machine, where nothing listens."""


def event(attacker: Attacker, number: int, text: str, created_us: int = 1) -> Publication:
    id, predicate = EventId(attacker.peer, 1, number), Predicate.parse(text)
    signature = Ed25519Signing(attacker.identity).sign(id, predicate, b"", created_us)
    return Publication.of(id, predicate, b"", signature, created_us)


def raised(attacker: Attacker, number: int, text: str, created_us: int = 1) -> list[Raise]:
    made = event(attacker, number, text, created_us)
    names = list(made.predicate.attributes)
    return [Raise(made, name, 0, 1, False, False, 0) for name in names] + [
        Raise(made, f"{name}/3", 1 << 62, 255, True, True, 1 << 40) for name in names
    ]


async def many_streams(attacker: Attacker, target: Node) -> None:
    for _ in range(2 * MANY):
        with suppress(*STREAM_ERRORS, UnreachableError):
            await attacker.open(target, SCOUTSUBS)
    await eventually(lambda: target._engine.host.counts.refused_streams)


async def slow_streams(attacker: Attacker, target: Node) -> None:
    """Begin a message on each stream, and send a byte of it now and then."""
    streams = [await attacker.open(target, SCOUTSUBS) for _ in range(6)]
    for byte in (b"\xff", b"\x7f", *[b"\x00"] * 10):
        for stream in streams:
            await stream.write(byte)
        await trio.sleep(0.01)
    host = target._engine.host
    await eventually(lambda: 0 < host.unfinished_bytes < 1_000)


async def half_open_connections(_attacker: Attacker, target: Node) -> None:
    port = int(target.addresses[0].split("/")[4])
    begun = []
    for number in range(2 * MANY):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        if number % 2:
            await stream.send_all(b"\x13/multistream/1.0.0\n\x07/noise\n")
        begun.append(stream)
    assert await works(target)  # While all of them are there.
    for stream in begun:
        await stream.aclose()


async def fragments_without_end(attacker: Attacker, target: Node) -> None:
    wanted = [f"y[{3 * number},{3 * number + 1}]" for number in range(200)]
    for number in range(MANY):
        part = announcement("y", number + 1, wanted)
        await attacker.send(target, Bundle((Piece(number, 0, 256, part),)))
    counts = target._engine.host.counts.received_kinds
    await eventually(lambda: counts["scoutsubs/piece"] + counts["scoutsubs/announce"] >= MANY)
    (account,) = [each for each in target.ledger() if each.name == "fragments"]
    assert account.size < 1 << 20


async def oscillation(attacker: Attacker, target: Node) -> None:
    for version in range(1, 10 * MANY, 2):
        there, gone = announcement("x", version, ["x"]), announcement("x", version + 1, [])
        await attacker.send(target, Bundle((there, gone)))
    counts = target._engine.host.counts.received_kinds
    await eventually(lambda: counts["scoutsubs/announce"] >= 10 * MANY)


async def goodbyes(attacker: Attacker, target: Node) -> None:
    for number in range(MANY):
        await attacker.send(target, Goodbye(number))
    await eventually(lambda: target._engine.host.counts.received_kinds["goodbye"] >= 1)


async def questions(attacker: Attacker, target: Node) -> None:
    for _ in range(20):
        await target.publish("surf", bytes(1_000))
    surf = Predicate.parse("surf")
    for number in range(MANY):
        recall = Recall("surf", number, surf, 0, None, 0, None)
        audit = Audit("surf", number, (surf,), 1 << 39, 0, tuple(range(500)))
        elsewhere = Elsewhere("surf", (surf,))
        await attacker.send(target, Bundle((recall, audit, elsewhere, PullOwn())))
    await eventually(lambda: len(attacker.received(Bundle)) >= 1)


async def victims(attacker: Attacker, target: Node) -> None:
    """Name peers that do not exist, for nodes to dial."""
    ids = [b"\x00\x24\x08\x01\x12\x20" + number.to_bytes(32, "big") for number in range(20)]
    named = tuple(Contact.of(id, (NOWHERE,)) for id in ids)
    for number in range(MANY):
        await attacker.send(target, Message(Kind.ADD_PROVIDER, b"%d" % number, providers=named))
    await attacker.ask(target, Message(Kind.FIND_NODE, b"surf"))
    assert target._engine.host.counts.failed_dials <= 2


async def new_attributes(attacker: Attacker, target: Node) -> None:
    for first in range(1, 500, 50):
        numbers = range(first, first + 50)
        parts = [raised(attacker, number, f"new{number}")[0] for number in numbers]
        await attacker.send(target, Bundle(tuple(parts)))
    counts = target._engine.host.counts.received_kinds
    await eventually(lambda: counts["scoutsubs/raise"] >= 500)
    waiting = target._engine.core.pubsub._forwarding  # type: ignore[attr-defined]
    assert len(waiting) <= RATE.burst + WAITING_MAX + 1


ATTACKS: tuple[Callable[[Attacker, Node], Awaitable[None]], ...] = (
    *(many_streams, slow_streams, half_open_connections, fragments_without_end),
    *(oscillation, goodbyes, questions, victims, new_attributes),
)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__.replace("_", " "))
def test_the_node_goes_on_as_before(
    attack: Callable[[Attacker, Node], Awaitable[None]], tmp_path: Path
) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 2) as (target, other), attackers(target) as (attacker,):
            assert await works(target, other)
            await attack(attacker, target)
            assert await works(target, other)
            assert target.failures().dropped == {}

    run(main)
