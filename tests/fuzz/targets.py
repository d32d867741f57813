"""What is fuzzed: each target takes a seed and fails with an exception, or by taking too long."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from random import Random
from typing import Any

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.protobuf import WireError, framed
from smartpubsub.matching import FilterSet
from smartpubsub.node.configuration import load_config
from smartpubsub.node.control.requests import RequestError, request_of
from smartpubsub.node.transport.addresses import transport_address
from smartpubsub.node.transport.contacts import contact_of, text_of
from smartpubsub.node.transport.identify import written
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import BlockError, cid_from_text, decode
from smartpubsub.protocols.car import read_sections, write_car
from smartpubsub.protocols.codecs import Codec
from smartpubsub.protocols.event_blocks import event_block, read_event_block
from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.pulsarcast.events import read_draft, read_event
from smartpubsub.protocols.pulsarcast.fields import RefusalError
from smartpubsub.protocols.pulsarcast.topics import read_topic
from smartpubsub.protocols.registry import codecs_of, protocol_names
from tests.fuzz.cores import PEERS, FuzzedCore, encoded
from tests.fuzz.engines import NATIVE_TARGETS
from tests.fuzz.making import PREDICATES, Maker

REQUESTS = [
    {"do": "topic-show", "topic": "bafyrei"},
    {"do": "publish", "event": "surf", "payload": "eA==", "deadline_s": 1.5},
    {"do": "subscribe", "predicate": "surf/price[0,1]", "since": "2026-01-01T00:00:00Z"},
    {"do": "topic-create", "name": "t", "publishers": ["self"], "subtopics": {"a": None}},
    {"do": "take", "subscription": 1, "event": "b"},
]
CONFIG = b'listen = ["/ip4/127.0.0.1/tcp/0"]\nbackups = 2\nmdns = false\nprotocol = "scoutsubs"\n'


def fuzz_messages(rng: Random) -> None:
    """Decode mutated messages of all protocols."""
    maker = Maker(rng, PEERS)
    codecs = codecs_of(rng.choice(list(protocol_names())))
    for _ in range(20):
        codec = rng.choice(codecs)
        with suppress(WireError):
            _read_frame(codec, maker, rng)


def _read_frame(codec: Codec, maker: Maker, rng: Random) -> None:
    frame = encoded(codec, maker.message(codec.message))
    body = maker.mutated(frame[1:])
    message = codec.decode(framed(body) if rng.random() < 0.8 else maker.mutated(frame))
    codec.kinds(message)
    list(codec.contacts(message))
    again = codec.encode(message)
    assert codec.size(message) == len(again)
    assert codec.decode(again) == message


def fuzz_blocks(rng: Random) -> None:
    """Decode mutated blocks, events, topics, requests to publish and CAR files."""
    maker = Maker(rng, PEERS)
    event: Publication = maker._new(Publication)
    for _ in range(10):
        block = maker.mutated(rng.choice([*maker.blocks, event_block(event)]))
        for read in (decode, read_event_block, read_topic, read_event, read_draft):
            with suppress(BlockError, RefusalError):
                read(block)
        file = BytesIO()
        write_car(file, [], maker.blocks)
        with suppress(SmartPubSubError):
            list(read_sections(BytesIO(maker.mutated(file.getvalue())))[1])


def fuzz_texts(rng: Random) -> None:
    """Read mutated predicates, content ids, addresses and peers."""
    maker = Maker(rng, PEERS)
    for _ in range(10):
        text = maker.mutated(str(rng.choice(PREDICATES)).encode()).decode("utf-8", "replace")
        for read in (Predicate.parse, Predicate.where, cid_from_text, contact_of):
            with suppress(SmartPubSubError):
                read(text)
        addresses = (b"\x04\x7f\x00\x00\x01\x06\x0f\xa1", b"\x36\x04abcd\x06\x0f\xa1", PEERS[0])
        address = maker.mutated(rng.choice(addresses))
        transport_address(address)
        text_of(PEERS[0], address)
    written(b"", [b""], ["x"], b"")


def fuzz_summaries(rng: Random) -> None:
    """Change the filters of a summary, many of them short-lived; compare it with its members."""
    filters, members = FilterSet(), dict[int, Predicate]()
    shown = list[Predicate]()
    members_max, most = rng.choice((1, 3, 100)), rng.choice((10, 1_000))
    for key in range(300):
        low = rng.choice((key, rng.randrange(most)))
        text = f"a={low}" if rng.random() < 0.7 else f"a[{low},{low + rng.randrange(most)}]/b"
        members[key] = Predicate.parse(text)
        filters.add(key, members[key])
        while len(members) > members_max:
            gone = rng.choice(list(members))
            filters.remove(gone)
            del members[gone]
        if rng.random() < 0.3:
            added, removed = filters.changes()
            shown = [one for one in shown if one not in removed] + list(added)
            assert sorted(map(str, shown)) == sorted(map(str, filters.summary()))
        event = Predicate.parse(f"a={rng.randrange(most)}/b")
        assert filters.matches(event) == any(one.matches(event) for one in members.values())


def fuzz_requests(rng: Random) -> None:
    """Read mutated requests of the control socket and configurations."""
    maker = Maker(rng, PEERS)
    for _ in range(10):
        with suppress(RequestError):
            request_of(maker.mutated(json.dumps(rng.choice(REQUESTS)).encode()))
        text = maker.mutated(CONFIG).decode("utf-8", "replace")
        with suppress(tomllib.TOMLDecodeError, SmartPubSubError):
            load_config(tomllib.loads(text), environ={})


def _core(protocol: str) -> Callable[[Random], None]:
    return lambda rng: FuzzedCore(protocol, rng).run()


TARGETS: dict[str, Callable[[Random], Any]] = {
    "messages": fuzz_messages,
    "blocks": fuzz_blocks,
    "texts": fuzz_texts,
    "summaries": fuzz_summaries,
    "requests": fuzz_requests,
    **NATIVE_TARGETS,
    **{name: _core(name) for name in protocol_names()},
}
