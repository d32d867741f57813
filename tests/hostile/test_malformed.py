"""Messages that no correct peer sends are refused, and cost the node next to nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import trio

from smartpubsub import Node, Predicate
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.node.configuration import NodeConfig
from smartpubsub.node.control.server import Control
from smartpubsub.node.control.socket import socket_in
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pulsarcast.messages import (
    Described,
    InviteKeeper,
    KeepEvents,
    Parcel,
    Spread,
    WantBlocks,
)
from smartpubsub.protocols.pulsarcast.topics import META, Rules, Topic, new_meta_topic, new_topic
from smartpubsub.protocols.scoutsubs.messages import Bundle, Raise, Record
from smartpubsub.seam import Effect, Event, Received, Send
from smartpubsub.testbed.hostile.attacker import polite
from tests.hostile.attacker import Attacker, attackers, contact_of, nodes, works
from tests.node.hosts import LOOPBACK, eventually, run

CID = b"\x01\x71\x12\x20" + bytes(32)
NESTED = b"\x81" * 47_000 + b"\x00"
BLOCKS = {
    "a string of 2^64-1 bytes": b"\x5b" + b"\xff" * 8,
    "a list of 2^64-1 items": b"\x9b" + b"\xff" * 8,
    "a link with an unknown codec": b"\xd8\x2a\x47\x00\x01\xff\xff\x03\x12\x00",
    "a link with an unknown hash": b"\xd8\x2a\x47\x00\x01\x71\xff\xff\x03\x00",
    "a link of nothing": b"\xd8\x2a\x40",
    "nested lists": NESTED,
    "nested tags": b"\xd8\x2a" * 20_000 + b"\x00",
    "a time that no calendar has": b"\xa1\x61\x61\x74" + b"0001-01-01T00:00:00Z",
}
ADDRESSES = {
    "a length beyond 64 bits": b"\xa5\x03" + b"\xff" * 12 + b"\x01",
    "a protocol beyond 64 bits": b"\xff" * 20,
    "an unknown protocol": b"\xfe\xff\x7f\x01",
    "a name that is no text": b"\x36\x04\xff\xfe\xfd\xfc\x06\x0f\xa1",
    "an onion service": b"\xbc\x03" + bytes(12),
    "nothing after the protocol": b"\x04",
}

Attack = Callable[[Attacker], list[object]]


def signed_event(attacker: Attacker, text: str = "surf") -> Publication:
    id, predicate = EventId(attacker.peer, 1, 1), Predicate.parse(text)
    signature = Ed25519Signing(attacker.identity).sign(id, predicate, b"", 1)
    return Publication.of(id, predicate, b"", signature, 1)


def with_block(block: bytes) -> Attack:
    return lambda _: [
        Parcel((Spread(block, 1),)),
        Parcel((KeepEvents(CID, CID, (block,)), Described((block,)))),
    ]


def with_address(address: bytes) -> Attack:
    def attack(attacker: Attacker) -> list[object]:
        contact = Contact.of(attacker.peer, (address,))
        return [Message(Kind.ADD_PROVIDER, b"key", providers=(contact,))]

    return attack


def with_age(age_ms: int) -> Attack:
    def attack(attacker: Attacker) -> list[object]:
        event = signed_event(attacker)
        return [
            Bundle((Record(event, "surf", 1, False, age_ms),)),
            Bundle((Raise(event, "surf", 0, 1, False, False, age_ms),)),
        ]

    return attack


ATTACKS: dict[str, Attack] = {
    **{f"a block with {name}": with_block(block) for name, block in BLOCKS.items()},
    **{f"an address with {name}": with_address(each) for name, each in ADDRESSES.items()},
    **{f"an age of {age}": with_age(age) for age in (1 << 53, 1 << 62, (1 << 64) - 1)},
}


def test_malformed_messages_cost_nothing_but_themselves(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 2) as (target, other):
            async with attackers(target) as (attacker,):
                for name, attack in ATTACKS.items():
                    began_s = time.process_time()
                    await attacker.send(target, *attack(attacker))
                    await attacker.ask(target, Message(Kind.FIND_NODE, b"surf"))
                    assert time.process_time() - began_s < 3, f"{name} keeps the node busy"
                    assert attacker.is_connected(target), name
            assert target.failures().dropped == {}
            assert await works(target, other)

    run(main)


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
def test_malformed_addresses_in_identify_cost_nothing(address: bytes, tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path) as (target,), attackers() as (attacker,):
            attacker.host.connections.addresses = (address,)
            await attacker.connect(target)
            answer = await attacker.ask(target, Message(Kind.FIND_NODE, b"surf"))

            assert isinstance(answer, Message)
            assert contact_of(target).peer in attacker.host.connections
            assert all("12D3" in peer for peer in await target.peers())

    run(main)


# --- storage ---


def topics_of(attacker: Attacker, count: int) -> dict[Cid, Topic]:
    """Topics with long descriptors, and their meta topics."""
    signing, made = Ed25519Signing(attacker.identity), dict[Cid, Topic]()
    for number in range(count):
        strangers = tuple(Random(n).randbytes(120) for n in range(400))
        rules = Rules(publishers=strangers)
        meta = new_meta_topic(f"{number}/meta", attacker.peer, signing, 1)
        topic = new_topic(f"{number}", attacker.peer, rules, signing, 1, subtopics={META: meta.cid})
        made |= {meta.cid: meta, topic.cid: topic}
    return made


def test_descriptors_beyond_the_storage_limit_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, stored_bytes_max=1 << 20) as (target,):
            async with attackers(target) as (attacker,):
                topics = topics_of(attacker, 20)

                def describe(event: Event, now: int) -> list[Effect]:
                    if isinstance(event, Received) and isinstance(event.message, Parcel):
                        wanted = [p.cids for p in event.message.parts if isinstance(p, WantBlocks)]
                        found = [topics[cid].block for cids in wanted for cid in cids]
                        return [Send(event.peer, Parcel((Described((b,)),))) for b in found]
                    return polite(event, now)

                attacker.script = describe
                invitations = [InviteKeeper(t.meta, c) for c, t in topics.items() if t.meta]
                await attacker.send(target, *(Parcel((each,)) for each in invitations))
                refused = target._engine.pulsar.tally().refused
                await eventually(lambda: refused.get("too many topics", 0) > 5)
            assert target.failures().restarts == 0
            assert target._engine.stored_bytes < 1 << 20
            assert await works(target)
        config = NodeConfig(data=tmp_path / "node-0", listen=(LOOPBACK,), stored_bytes_max=1 << 20)
        async with Node(config=config) as again:
            assert await works(again)

    run(main)


# --- control socket ---

REQUESTS: list[dict[str, object]] = [
    {"do": "topic-show", "topic": "b"},
    {"do": "topic-show", "topic": "z"},
    {"do": "topic-show", "topic": "bafyrei"},
    {"do": "topic-subscribe", "topic": "\x00"},
    {"do": "topic-publish", "topic": "Qm", "payload": ""},
    {"do": "take", "subscription": 1 << 53, "event": "b"},
    {"do": "unsubscribe", "subscription": 1 << 53},
    {"do": "group-join", "group": "surf", "owner": "/ip4/1.2.3.4/tcp/1/p2p/b"},
    {"do": "topic-import", "blocks": ["W////////////w=="]},
    {"do": "topic-history", "topic": "b", "since": "9999-99-99"},
]


def test_no_request_on_the_control_socket_ends_the_node(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path) as (target,), trio.open_nursery() as nursery:
            await nursery.start(Control(target).serve)
            path = socket_in(target.config.data)
            async with await trio.open_unix_socket(str(path)) as stream:
                for id, request in enumerate(REQUESTS):
                    await stream.send_all(json.dumps({"id": id, **request}).encode() + b"\n")
                answers = b""
                while answers.count(b"\n") < len(REQUESTS):
                    answers += await stream.receive_some(1 << 16)
            said = [json.loads(line) for line in answers.splitlines()]
            assert {answer["id"] for answer in said if "error" in answer or "ok" in answer} == set(
                range(len(REQUESTS))
            )
            assert not any("failed to do this" in answer.get("error", "") for answer in said)
            assert await works(target)
            nursery.cancel_scope.cancel()

    run(main)
