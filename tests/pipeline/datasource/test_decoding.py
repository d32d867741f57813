"""Blocks are decoded to what the protocol reads in them, whatever their lengths are."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from smartpubsub.node.control.pages import joined
from smartpubsub.node.identity import peer_text
from smartpubsub.node.storage.kept import event_content
from smartpubsub.pipeline.datasource.decoding import StoredEvents, TopicEvents
from smartpubsub.pipeline.datasource.rows import RowSchema
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import cid_of, cid_text, encode, link, time_text
from smartpubsub.protocols.event_blocks import event_block
from smartpubsub.protocols.publication import EventId, Publication
from tests.protocols.pulsarcast.makers import NOW, Person

PREDICATE = Predicate.parse("portugal/temp=24.5/wind[1,]/a[2,3]/b=0.1234567890123456789")


@pytest.mark.parametrize("length", [0, 1, 23, 24, 255, 256, 65_535, 65_536])
@pytest.mark.parametrize("parents", [0, 1, 8])
def test_the_events_of_a_topic(length: int, parents: int) -> None:
    ann, topic = Person(1), Person(1).topic()[0]
    # A payload that looks like what follows it.
    payload = (b"hmetadata\xa5estart\x00fheight\x00" * (length // 20 + 1))[:length]
    linked = [ann.event(topic, payload=bytes([n])) for n in range(parents)]
    event = ann.event(topic, *linked, payload=payload)

    read = TopicEvents(joined([event.block]))

    assert read.event_ids.to_pylist() == [str(event.id)]
    assert read.cids.to_pylist() == [cid_text(event.cid)]
    assert read.publishers.to_pylist() == [peer_text(ann.peer)]
    assert read.payloads.to_pylist() == [payload]
    assert read.topics.to_pylist() == [[cid_text(topic.cid)]]
    assert read.times.cast("int64").to_pylist() == [NOW]


def _block_of(peer: bytes, start: int, payload: bytes) -> bytes:
    metadata: dict[str, object] = {"created": time_text(NOW), "protocolVersion": "1.0.0"}
    metadata |= {"start": start, "number": 300, "height": 70_000}
    return encode(
        {
            "topic": link(cid_of(b"")),
            "author": peer,
            "publisher": peer,
            "parents": [link(cid_of(payload))],
            "payload": payload,
            "metadata": metadata,
            "signatures": [bytes(64)],
        }
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from([Person(1).peer, Person(2).peer, b"\x12\x20" + bytes(32)]),
            st.sampled_from([0, 23, 24, 255, 256, 1 << 16, 1 << 32, (1 << 63) - 1]),
            st.binary(max_size=300),
        )
    )
)
def test_events_of_peers_with_different_kinds_of_keys_keep_their_order(
    events: list[tuple[bytes, int, bytes]],
) -> None:
    blocks = [_block_of(*event) for event in events]

    read = TopicEvents(joined(blocks))

    assert read.event_ids.to_pylist() == [str(EventId(*event[:2], 300)) for event in events]
    assert read.publishers.to_pylist() == [peer_text(peer) for peer, _, _ in events]
    assert read.payloads.to_pylist() == [payload for *_, payload in events]
    assert read.cids.to_pylist() == [cid_text(cid_of(block)) for block in blocks]
    assert read.blocks.to_pylist() == blocks
    assert read.predicates.to_pylist() == [cid_text(cid_of(b""))] * len(events)


def test_events_that_match_a_predicate() -> None:
    id = EventId(Person(1).peer, 7, 3)
    event = Publication.of(id, PREDICATE, b'{"city": "lisbon"}', bytes(64), NOW)
    old = Publication.of(id, PREDICATE, b"no JSON", bytes(64), 0)

    read = StoredEvents(joined([event_content(event), event_content(old)]))

    assert read.event_ids == [str(id)] * 2
    assert read.cids.to_pylist() == [cid_text(cid_of(event_block(event))), None]
    assert read.times.cast("int64").to_pylist() == [NOW, None]
    assert read.topics[0] == ["portugal"]
    assert read.ranges[0][:3] == [
        {"name": "temp", "lo": 24.5, "hi": 24.5},
        {"name": "wind", "lo": 1.0, "hi": None},
        {"name": "a", "lo": 2.0, "hi": 3.0},
    ]
    b = Decimal("0.1234567890123456789")
    assert read.values[0] == {"portugal": True, "temp": 24.5, "wind": None, "a": None, "b": b}
    assert read.json_payloads == [{"city": "lisbon"}, None]


@pytest.mark.parametrize("payload", [b'{"temp": NaN}', b"-Infinity", b"\xff", b"[" * 10_000])
def test_what_is_no_json_has_no_members(payload: bytes) -> None:
    event = Publication.of(EventId(Person(1).peer, 7, 3), PREDICATE, payload, bytes(64), NOW)

    assert StoredEvents(joined([event_content(event)])).json_payloads == [None]


def _stored(*events: tuple[str, bytes]) -> StoredEvents:
    id = EventId(Person(1).peer, 7, 3)
    written = [
        event_content(Publication.of(id, Predicate.parse(text), payload, bytes(64), NOW))
        for text, payload in events
    ]
    return StoredEvents(joined(written))


def _column(kind: DataType, *events: tuple[str, bytes]) -> list[object]:
    """The column `x` of events."""
    rows = RowSchema(StructType().add("x", kind))
    return [value for batch in rows.batches(_stored(*events)) for value in batch[0].to_pylist()]


@pytest.mark.parametrize(
    ("kind", "payload", "value"),
    [
        (DoubleType(), b'{"x": 1%s}' % (b"0" * 400), None),
        (FloatType(), b'{"x": 1%s}' % (b"0" * 400), None),
        (LongType(), b'{"x": 1%s}' % (b"0" * 400), None),
        (DoubleType(), b'{"x": 1e400}', None),
        (DoubleType(), b'{"x": -1e308}', -1e308),
        (FloatType(), b'{"x": 1e39}', None),
        (FloatType(), b'{"x": -2.5}', -2.5),
        (DecimalType(38, 0), b'{"x": 1%s}' % (b"0" * 400), None),
        (StringType(), rb'{"x": "\ud800"}', None),
        (StringType(), rb'{"x": "\ud83d\ude00"}', "\U0001f600"),
        (
            MapType(StringType(), StringType()),
            rb'{"x": {"\ud800": "a", "b": "\ud800"}}',
            [("b", None)],
        ),
        (DecimalType(38, 0), b'{"x": 1%s}' % (b"2" * 37), Decimal("1" + "2" * 37)),
        (DecimalType(4, 2), b'{"x": 99.99}', Decimal("99.99")),
        (DecimalType(4, 2), b'{"x": 100}', None),
    ],
)
def test_a_value_that_a_column_cannot_hold_is_null(
    kind: DataType, payload: bytes, value: object
) -> None:
    assert _column(kind, ("surf", payload)) == [value]


def test_an_exact_number_is_text_without_quotes() -> None:
    assert _column(StringType(), ("x=0.1234567890123456789", b"")) == ["0.1234567890123456789"]


def test_an_attribute_with_an_interval_hides_the_member_of_the_payload() -> None:
    """A filter that the node applies to the attribute excludes what the column excludes."""
    payload = b'{"x": 25}'
    events = [("surf", payload), ("x=24", payload), ("x[20,30]", payload), ("x", payload)]
    assert _column(DoubleType(), *events) == [25, 24, None, None]


def test_equal_predicates_keep_their_own_order() -> None:
    read = _stored(("a/b/c=1/d=2", b""), ("d=2/b/c=1/a", b""))
    assert [*read.topics] == [["a", "b"], ["b", "a"]]
    assert [[each["name"] for each in ranges] for ranges in read.ranges] == [["c", "d"], ["d", "c"]]
