"""Events as bytes: the encoding by hand is protobuf's, and what differs from it is read too."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.kademlia.protobuf import WireError
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.event_messages import (
    ContentBuffer,
    EventBuffer,
    EventLimits,
    read_event,
)
from smartpubsub.protocols.evidence import EVIDENCE_BYTES_MAX
from smartpubsub.protocols.publication import (
    SIGNATURE_BYTES,
    TIME_END_US,
    TOPIC,
    EventId,
    Publication,
)

LIMITS = EventLimits()
EVENT = Publication.of(
    EventId(b"publisher", 7, 1), Predicate.parse("surf/price=15"), b"waves", b"s" * 64, 300
)


def by_protobuf(event: Publication, predicate: str | None = None) -> bytes:
    id = event.id
    content = ContentBuffer(
        predicate=predicate or str(event.predicate),
        payload=event.payload,
        created_us=event.created_us,
    )
    encoded: bytes = EventBuffer(
        publisher=id.publisher,
        data=content.SerializeToString(),
        seqno=id.incarnation.to_bytes(4, "big") + id.number.to_bytes(4, "big"),
        topic=TOPIC,
        signature=event.signature,
    ).SerializeToString()
    return encoded


@given(
    st.builds(
        Publication.of,
        st.builds(
            EventId,
            st.binary(min_size=1, max_size=128),
            st.integers(0, 2**32 - 1),
            st.integers(0, 2**32 - 1),
        ),
        st.sampled_from(["surf", "surf/price=15", "ö[-1e-300,12345678901234567890]"]).map(
            Predicate.parse
        ),
        st.binary(max_size=3_000),
        st.binary(min_size=SIGNATURE_BYTES, max_size=EVIDENCE_BYTES_MAX),
        st.integers(0, TIME_END_US - 1),
    )
)
def test_an_event_is_encoded_as_protobuf_does_and_read_back(event: Publication) -> None:
    assert event.encoded == by_protobuf(event)
    assert event.wire_bytes == len(event.encoded)
    read = read_event(event.encoded, LIMITS)
    assert read == event
    assert read.encoded is event.encoded


@pytest.mark.parametrize(
    "data",
    [
        by_protobuf(EVENT, "price=15/surf"),
        by_protobuf(EVENT, "surf/price=15.0"),
        EVENT.encoded + b"\xa0\x06\x02",  # With hops.
        EVENT.encoded[:1] + b"\x89\x00" + EVENT.encoded[2:],  # A length in too many bytes.
    ],
)
def test_other_bytes_of_an_event_are_not_taken_for_its_encoding(data: bytes) -> None:
    read = read_event(data, LIMITS)
    assert read.encoded == by_protobuf(read)
    assert read.predicate == EVENT.predicate


@given(st.integers(0, len(EVENT.encoded) - 1), st.binary(max_size=2))
def test_damaged_bytes_are_another_event_or_an_error(at: int, instead: bytes) -> None:
    damaged = EVENT.encoded[:at] + instead + EVENT.encoded[at + 1 :]
    try:
        read = read_event(damaged, LIMITS)
    except WireError:
        return
    assert read.encoded == by_protobuf(read)
