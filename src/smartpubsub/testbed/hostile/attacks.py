"""The attacks of hostile peers, by name.

Each goes on until cancelled, as fast as the nodes accept its messages.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from random import Random

import trio

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.kademlia.messages import Record as KadRecord
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.node.transport.streams import STREAM_ERRORS, UnreachableError
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.departure import Goodbye
from smartpubsub.protocols.publication import EventId, Publication, UnsignedEvent
from smartpubsub.protocols.pulsarcast.messages import InviteKeeper, Parcel
from smartpubsub.protocols.pulsarcast.spec import PULSARCAST
from smartpubsub.protocols.scoutsubs.fragments import bundles_of
from smartpubsub.protocols.scoutsubs.messages import (
    WHOLE,
    Alive,
    Announce,
    Bundle,
    CopyTree,
    Part,
    Probe,
    Pull,
    Raise,
    Record,
)
from smartpubsub.protocols.scoutsubs.spec import SCOUTSUBS
from smartpubsub.testbed.hostile.attacker import Attacker

PAUSE_S = 0.02
"""The pause between two messages, which leaves the processor to the nodes on the machine."""
PROCESSOR_SHARE = 0.25
SHARE_S = 0.05
"""How often attackers check their share of the processor."""
PARTS = 500
ATTRIBUTES = 10_000
TOUCHING = 700
MANY_FILTERS = 10_000
PUBLICATIONS = 250
BEGUN = b"\x80\x80\x80\x01" + bytes(100_000)
"""The beginning of a message of 2 MiB."""
_AGE_MS = 1 << 53

Attack = Callable[[Attacker, Sequence[Contact]], Awaitable[None]]


def announcement(attribute: str, version: int, filters: Sequence[str]) -> Announce:
    """An announcement of all filters in a tree."""
    wanted = tuple(map(Predicate.parse, filters))
    return Announce(attribute, 1, version, WHOLE, wanted, (), None, (), False)


async def _to_all(attacker: Attacker, targets: Sequence[Contact], *messages: object) -> None:
    for target in targets:
        await attacker.send_to(target.peer, *messages)
    await trio.sleep(PAUSE_S)


async def attributes(attacker: Attacker, targets: Sequence[Contact]) -> None:
    """Announce ten thousand attributes, again and again with new filters."""
    for version in count(1):
        for first in range(0, ATTRIBUTES, PARTS):
            names = [f"a{number}" for number in range(first, first + PARTS)]
            parts = [announcement(name, version, [f"{name}/x={version}"]) for name in names]
            await _to_all(attacker, targets, Bundle(tuple(parts)))


async def touching_filters(attacker: Attacker, targets: Sequence[Contact]) -> None:
    """Announce filters that merge into one, and withdraw half of them."""
    wanted = [f"x[{number},{number + 1}]" for number in range(TOUCHING)]
    for version in count(1, 2):
        whole, half = (
            announcement("x", version, wanted),
            announcement("x", version + 1, wanted[::2]),
        )
        await _to_all(attacker, targets, Bundle((whole,)), Bundle((half,)))


async def many_filters(attacker: Attacker, targets: Sequence[Contact]) -> None:
    """Announce ten thousand filters in one tree, in fragments, and withdraw them."""
    wanted = [f"y[{3 * number},{3 * number + 1}]" for number in range(MANY_FILTERS)]
    for version in count(1, 2):
        whole, none = announcement("y", version, wanted), announcement("y", version + 1, ())
        await _to_all(attacker, targets, *bundles_of([whole, none], 512 << 10))
        await trio.sleep(1)


async def probes(attacker: Attacker, targets: Sequence[Contact]) -> None:
    """Send probes, each of which a node answers."""
    for first in count(0, PARTS):
        parts = tuple(Probe(number) for number in range(first, first + PARTS))
        await _to_all(attacker, targets, Bundle(parts))


async def empty_messages(attacker: Attacker, targets: Sequence[Contact]) -> None:
    """Send messages of one byte."""
    await _write_to_all(attacker, targets, SCOUTSUBS, bytes(10_000))


async def unfinished_messages(attacker: Attacker, targets: Sequence[Contact]) -> None:
    """Begin messages that never end."""
    await _write_to_all(attacker, targets, SCOUTSUBS, BEGUN, again_s=1.0)


async def garbage(attacker: Attacker, targets: Sequence[Contact]) -> None:
    """Write bytes that are no message."""
    data = Random(1).randbytes(2_000)
    for protocol in (SCOUTSUBS, PULSARCAST):
        await _write_to_all(attacker, targets, protocol, data, again_s=0.1, times=50)
    await garbage(attacker, targets)


async def _write_to_all(
    attacker: Attacker,
    targets: Sequence[Contact],
    protocol: str,
    data: bytes,
    *,
    again_s: float = PAUSE_S,
    times: int = 1 << 62,
) -> None:
    async def write(target: Contact) -> None:
        for _ in range(times):
            with suppress(*STREAM_ERRORS, UnreachableError):
                await attacker.connect_to(target)
                stream = await attacker.open_to(target.peer, protocol)
                while True:
                    await stream.write(data)
                    await trio.sleep(again_s)
            await trio.sleep(again_s)

    async with trio.open_nursery() as nursery:
        for target in targets:
            nursery.start_soon(write, target)


async def lookups(attacker: Attacker, targets: Sequence[Contact]) -> None:
    """Ask for the peers closest to names, many questions at a time."""
    for number in count():
        name = b"name %d" % number
        async with trio.open_nursery() as nursery:
            for target in targets:
                for place in range(16):
                    question = Message(Kind.FIND_NODE, name + b"/%d" % place)
                    nursery.start_soon(attacker.ask_peer, target.peer, question)
        await trio.sleep(PAUSE_S)


async def values(attacker: Attacker, targets: Sequence[Contact]) -> None:
    """Store values on nodes."""
    for number in count():
        value = attacker.peer + b"%d" % number
        name = b"\x12\x20" + hashlib.sha256(value).digest()
        question = Message(Kind.PUT_VALUE, name, KadRecord(name, value))
        for target in targets:
            await attacker.ask_peer(target.peer, question)
        await trio.sleep(PAUSE_S)


def _event(attacker: Attacker, number: int) -> Publication:
    id, predicate = EventId(attacker.peer, 1, number), Predicate.parse("city-1/temp=50")
    payload = bytes(1_000)
    signature = Ed25519Signing(attacker.identity).sign(id, predicate, payload, 1)
    return Publication.of(id, predicate, payload, signature, 1)


async def records(attacker: Attacker, targets: Sequence[Contact]) -> None:
    """Record events on backups, with absurd ages, without being their rendezvous."""
    for first in count(1, 20):
        events = [_event(attacker, number) for number in range(first, first + 20)]
        parts = [Record(event, "city-1", 1, False, _AGE_MS) for event in events]
        await _to_all(attacker, targets, Bundle(tuple(parts)))


async def publications(attacker: Attacker, targets: Sequence[Contact]) -> None:
    """Publish tiny events without end, hundreds in a message under one signature."""
    signing, predicate = Ed25519Signing(attacker.identity), Predicate.parse("surf/mine")
    now_us = time.time_ns() // 1_000
    for first in count(1, PUBLICATIONS):
        ids = [EventId(attacker.peer, 1, number) for number in range(first, first + PUBLICATIONS)]
        signatures = signing.sign_all([UnsignedEvent(id, predicate, b"", now_us) for id in ids])
        parts = [
            Raise(
                Publication.of(id, predicate, b"", signature, now_us), "surf", 0, 0, False, False, 0
            )
            for id, signature in zip(ids, signatures, strict=True)
        ]
        await _to_all(attacker, targets, Bundle(tuple(parts)))


async def claims(attacker: Attacker, targets: Sequence[Contact]) -> None:
    """Claim roles that it does not have, and send answers to questions that no node asked."""
    for number in count(1):
        event = _event(attacker, number)
        parts: list[Part] = []
        for topic in (f"city-{place}" for place in range(8)):
            parts += [
                Pull(topic),
                CopyTree(topic, True, 1 << 60, True, (), (), 2),
                Raise(event, topic, 0, 1, False, False, _AGE_MS),
            ]
        parts += [Alive(number, 0) for number in range(20)]
        await _to_all(attacker, targets, Bundle(tuple(parts)))


async def descriptors(attacker: Attacker, targets: Sequence[Contact]) -> None:
    """Invite nodes to keep topics that have no descriptors."""
    for number in count():
        cid = b"\x01\x71\x12\x20" + hashlib.sha256(b"%d" % number).digest()
        await _to_all(attacker, targets, Parcel((InviteKeeper(cid, cid),)))


async def comings_and_goings(attacker: Attacker, targets: Sequence[Contact]) -> None:
    """Say goodbye, and go on sending."""
    for number in count():
        await _to_all(attacker, targets, Goodbye(number), Bundle((Probe(number),)))
        await trio.sleep(1)


ATTACKS: dict[str, Attack] = {
    attack.__name__.replace("_", "-"): attack
    for attack in (
        *(attributes, touching_filters, many_filters, probes, empty_messages),
        *(unfinished_messages, garbage, lookups, values, records, publications, claims),
        *(descriptors, comings_and_goings),
    )
}


async def keep_to_share() -> None:
    """Limit this process, which has only attackers, to a part of a processor.

    On one machine, attackers that merely take the processor from nodes would prove nothing.
    """
    used_s, at_s = time.process_time(), time.monotonic()
    while True:
        await trio.sleep(SHARE_S)
        now_s = time.monotonic()
        too_much_s = time.process_time() - used_s - PROCESSOR_SHARE * (now_s - at_s)
        if too_much_s > 0:
            time.sleep(too_much_s / PROCESSOR_SHARE)  # All attackers of the process pause.
        used_s, at_s = time.process_time(), time.monotonic()


async def run_attack(
    name: str, targets: Sequence[Contact], on_connected: Callable[[], None] = lambda: None
) -> None:
    """Attack nodes with a new peer until cancelled; call back when the attack begins.

    The peer answers no questions, so no node takes it for a rendezvous, which could withhold
    events.
    """
    attacker = Attacker()
    attacker.script = lambda *_: []
    async with trio.open_nursery() as nursery:
        await nursery.start(attacker.host.run, ["/ip4/127.0.0.1/tcp/0"])
        for target in targets:
            await attacker.connect_to(target)
        on_connected()
        await ATTACKS[name](attacker, targets)
