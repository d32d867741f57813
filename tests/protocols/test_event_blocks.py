"""Events as blocks are what they were, and whatever is no such block is an error of its own."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import BlockError, cid_of, cid_text, decode, encode
from smartpubsub.protocols.event_blocks import event_block, read_event_block
from smartpubsub.protocols.publication import (
    EventId,
    EventIdError,
    Publication,
    event_id_from_text,
)
from tests.damage import damaged
from tests.protocols.strategies import ids, publications

EVENT = Publication.of(
    EventId(b"peer", 2, 300), Predicate.parse("surf/price=15"), b"hi", b"s" * 64, 1_500_000
)


def test_the_block_and_its_name_are_these() -> None:
    assert decode(event_block(EVENT)) == {
        "publisher": b"peer",
        "predicate": "surf/price=15",
        "payload": b"hi",
        "metadata": {
            "created": "1970-01-01T00:00:01.500000Z",
            "protocolVersion": "1.0.0",
            "start": 2,
            "number": 300,
        },
        "signature": b"s" * 64,
    }
    name = cid_text(cid_of(event_block(EVENT)))
    assert name == "bafyreicds6qcyiljxg3tmfvxvmuedtdyufn73u2lxcpfolwokgdalvpbqe"


def test_a_block_says_whether_its_event_shares_its_signature() -> None:
    shared = event_block(EVENT._replace(signature=b"s" * (64 + 17)))

    assert b"1.1.0" in shared
    with pytest.raises(BlockError, match="not canonical"):
        read_event_block(shared.replace(b"1.1.0", b"1.0.0"))


@given(publications, st.sampled_from([64, 64 + 17, 64 + 16 * 17]))
def test_a_block_is_read_as_the_event_that_it_was(event: Publication, length: int) -> None:
    dated = Publication.of(*event[:3], b"s" * length, max(1, event.created_us))

    assert read_event_block(event_block(dated)) == dated


@given(damaged(event_block(EVENT)))
def test_a_damaged_block_is_another_event_or_an_error(data: bytes) -> None:
    try:
        event = read_event_block(data)
    except BlockError:
        return
    assert event_block(event) == data


@pytest.mark.parametrize(
    "changed",
    [
        {"publisher": b""},
        {"publisher": "peer"},
        {"predicate": "surf["},
        {"predicate": "surf/price=15.0"},  # Which is written in another way.
        {"payload": "hi"},
        {"signature": b"short"},
        {"metadata": {}},
        {"more": 1},
        {"start": 1 << 32},
        {"number": -1},
        {"number": True},
        {"created": "1970-01-01T00:00:01.5Z"},
        {"created": "1970-01-01T00:00:00.000000Z"},
        {"created": "yesterday"},
        {"protocolVersion": "2.0.0"},
    ],
    ids=str,
)
def test_what_is_not_written_as_events_are_is_refused(changed: dict[str, Any]) -> None:
    fields = decode(event_block(EVENT))
    [(name, value)] = changed.items()
    (fields["metadata"] if name in fields["metadata"] else fields)[name] = value

    with pytest.raises(BlockError):
        read_event_block(encode(fields))


@pytest.mark.parametrize("block", [b"", b"\xf6", encode([]), encode({})])
def test_other_blocks_are_no_events(block: bytes) -> None:
    with pytest.raises(BlockError):
        read_event_block(block)


@given(ids)
def test_an_id_is_read_from_its_text_with_the_end_of_its_publisher(id: EventId) -> None:
    assert event_id_from_text(str(id)) == id._replace(publisher=id.publisher[-8:])


@pytest.mark.parametrize("text", ["", "surf", "ab-1", "ab-1-", "AB-1-2", "abc-1-2", "ab-1-2-3"])
def test_other_texts_are_no_ids(text: str) -> None:
    with pytest.raises(EventIdError):
        event_id_from_text(text)
