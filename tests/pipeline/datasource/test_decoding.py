"""Blocks are decoded to what the protocol reads in them, whatever their lengths are."""

from __future__ import annotations

import pytest

from smartpubsub.node.identity import peer_text
from smartpubsub.node.storage.kept import event_content
from smartpubsub.pipeline.datasource.decoding import StoredEvents, TopicEvents
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import cid_of, cid_text, encode, link, time_text
from smartpubsub.protocols.event_blocks import event_block
from smartpubsub.protocols.publication import EventId, Publication
from tests.protocols.pulsarcast.makers import NOW, Person


@pytest.mark.parametrize("length", [0, 1, 23, 24, 255, 256, 65_535, 65_536])
@pytest.mark.parametrize("parents", [0, 1, 8])
def test_the_events_of_a_topic(length: int, parents: int) -> None:
    ann, topic = Person(1), Person(1).topic()[0]
    # A payload that looks like what follows it.
    payload = (b"hmetadata\xa5estart\x00fheight\x00" * (length // 20 + 1))[:length]
    linked = [ann.event(topic, payload=bytes([n])) for n in range(parents)]
    event = ann.event(topic, *linked, payload=payload)

    read = TopicEvents([event.block])

    assert read.event_ids == [str(event.id)]
    assert read.cids.to_pylist() == [cid_text(event.cid)]
    assert read.publishers == [peer_text(ann.peer)]
    assert read.payloads == (payload,)
    assert read.topics == [[cid_text(topic.cid)]]
    assert read.times.cast("int64").to_pylist() == [NOW]


def test_an_event_of_a_peer_with_another_kind_of_key() -> None:
    peer = b"\x12\x20" + bytes(32)
    metadata: dict[str, object] = {"created": time_text(NOW), "protocolVersion": "1.0.0"}
    metadata |= {"start": 1 << 40, "number": 300, "height": 70_000}
    block = encode(
        {
            "topic": link(cid_of(b"")),
            "author": peer,
            "publisher": peer,
            "parents": [],
            "payload": b"hi",
            "metadata": metadata,
            "signatures": [bytes(64)],
        }
    )
    read = TopicEvents([block])
    assert read.event_ids == [str(EventId(peer, 1 << 40, 300))]
    assert read.payloads == (b"hi",)


def test_events_that_match_a_predicate() -> None:
    id = EventId(Person(1).peer, 7, 3)
    predicate = Predicate.parse("portugal/temp=24.5/wind[1,]/a[2,3]/b=0.1234567890123456789")
    event = Publication.of(id, predicate, b'{"city": "lisbon"}', bytes(64), NOW)
    old = Publication.of(id, predicate, b"no JSON", bytes(64), 0)

    read = StoredEvents([event_content(event), event_content(old)])

    assert read.event_ids == [str(id)] * 2
    assert read.cids.to_pylist() == [cid_text(cid_of(event_block(event))), None]
    assert read.times.cast("int64").to_pylist() == [NOW, None]
    assert read.topics[0] == ["portugal"]
    assert read.ranges[0][:3] == [
        {"name": "temp", "lo": 24.5, "hi": 24.5},
        {"name": "wind", "lo": 1.0, "hi": None},
        {"name": "a", "lo": 2.0, "hi": 3.0},
    ]
    assert [*read.values[0]] == ["portugal", "temp", "b"]
    assert read.json_payloads == [{"city": "lisbon"}, None]
