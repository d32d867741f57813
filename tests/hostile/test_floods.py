"""A peer that makes work, within the rules or not, makes it for itself."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import trio

from smartpubsub import Node
from smartpubsub.node.transport.streams import STREAM_ERRORS, Stream
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.runtime.messages import MessageLimits
from smartpubsub.protocols.scoutsubs.messages import (
    WHOLE,
    Announce,
    Audit,
    Bundle,
    Probe,
    Recall,
    decode_pieces,
    encode,
)
from smartpubsub.protocols.scoutsubs.spec import SCOUTSUBS
from tests.hostile.attacker import attackers, nodes, works
from tests.node.hosts import eventually, run

BEGUN = b"\x80\x80\x80\x01" + bytes(200_000)
"""The beginning of a message of 2 MiB."""
SOON_CPU_S = 4.0
"""Processor time of this process, in which all nodes and the attacker run, until a few events have
arrived: far more than they need, and far less than the attacks took. Seconds would depend on what
else the machine does."""


async def works_soon(publisher: Node, subscriber: Node) -> bool:
    began_s = time.process_time()
    for _ in range(3):
        if not await works(publisher, subscriber):
            return False
    return time.process_time() - began_s < SOON_CPU_S


def announcement(attribute: str, *texts: str) -> Announce:
    wanted = tuple(map(Predicate.parse, texts))
    return Announce(attribute, 1, 1, WHOLE, wanted, (), None, (), False)


def test_frames_of_one_byte_are_counted_and_hold_nobody_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 2) as (target, other), attackers(target) as (attacker,):
            assert await works(target, other)
            counts = target._engine.host.counts
            stream = await attacker.open(target, SCOUTSUBS)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(write_to_its_end, stream, bytes(1_500_000))
                await eventually(lambda: counts.received_kinds["empty"] > 2_000)
                assert await works_soon(target, other)
                nursery.cancel_scope.cancel()

    run(main)


async def write_to_its_end(stream: Stream, data: bytes) -> None:
    with suppress(*STREAM_ERRORS):  # The node may reset the stream.
        await stream.write(data)


def test_ten_thousand_attributes_hold_nobody_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 2) as (target, other), attackers(target) as (attacker,):
            assert await works(target, other)
            parts = [announcement(f"a{number}", f"a{number}") for number in range(10_000)]
            received = target._engine.host.counts.received_kinds
            await attacker.send(target, *(Bundle(tuple(parts[n::5])) for n in range(5)))
            await eventually(lambda: received["scoutsubs/announce"] >= 2_000)
            assert await works_soon(target, other)

    run(main)


def test_touching_filters_hold_nobody_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 2) as (target, other), attackers(target) as (attacker,):
            assert await works(target, other)
            wanted = [f"x[{number},{number + 1}]" for number in range(700)]
            whole = announcement("x", *wanted)
            fewer = announcement("x", *wanted[::2])._replace(version=2)
            received = target._engine.host.counts.received_kinds
            before = received["scoutsubs/announce"]
            await attacker.send(target, Bundle((whole,)), Bundle((fewer,)))
            await eventually(lambda: received["scoutsubs/announce"] >= before + 2)
            assert await works_soon(target, other)

    run(main)


def test_a_flood_of_probes_holds_nobody_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 2) as (target, other), attackers(target) as (attacker,):
            assert await works(target, other)
            received = target._engine.host.counts.received_kinds
            bundles = [Bundle(tuple(Probe(number) for number in range(1_000)))] * 40
            await attacker.send(target, *bundles)
            await eventually(lambda: received["scoutsubs/probe"] >= 5_000)
            assert await works_soon(target, other)

    run(main)


def test_questions_that_cost_much_hold_nobody_up(tmp_path: Path) -> None:
    """300 events and 20,000 filters took 1.4 s of processor time, in which the node did nothing
    else; a message may have had five times as many filters, and a node keeps 25,000 events."""

    async def main() -> None:
        async with (
            nodes(tmp_path, 2) as (target, other),
            attackers(target, number=2) as (malformed, attacker),  # Garbage may end a stream.
        ):
            assert await works(target, other)
            counts = target._engine.host.counts
            filters = tuple(Predicate.parse(f"surf/z{number}") for number in range(101))
            await malformed.send(target, Bundle((Audit("surf", 1, filters, 300_000, 0, ()),)))
            await eventually(lambda: counts.garbage)
            question = Recall("surf", 1, Predicate.parse("surf/z"), 0, None, 0, None)
            await attacker.send(target, Bundle((question,) * 1_000))
            await eventually(lambda: counts.received_kinds["scoutsubs/recall"] >= 100)
            assert await works_soon(target, other)

    run(main)


def test_each_question_that_costs_much_is_handled_by_itself() -> None:
    filters = (Predicate.parse("surf"),)
    audit = Audit("surf", 1, filters, 300_000, 0, ())
    recall = Recall("surf", 1, *filters, 0, None, 0, None)
    parts = (Probe(1), recall, audit, Probe(2), audit, Probe(3))
    pieces = [*decode_pieces(encode(Bundle(parts)), MessageLimits())]
    assert pieces == [
        Bundle((Probe(1),)),
        Bundle((recall,)),
        Bundle((audit, Probe(2))),
        Bundle((audit, Probe(3))),
    ]


def test_unfinished_messages_take_a_limited_room_for_a_limited_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            nodes(tmp_path, 2, unfinished_bytes_max=1 << 20, frame_s=1) as (target, other),
            attackers(target) as (attacker,),
        ):
            host = target._engine.host
            for _ in range(8):
                with suppress(*STREAM_ERRORS):
                    await attacker.write(target, SCOUTSUBS, BEGUN)
            await eventually(lambda: host.counts.refused_unfinished)
            assert host.unfinished_bytes <= 1 << 20
            assert await works_soon(target, other)
            await eventually(lambda: host.unfinished_bytes == 0)

    run(main)
