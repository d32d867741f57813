"""Pubsub messages on the wire are libp2p's, and whatever comes is a message or a `WireError`."""

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smartpubsub.kademlia.protobuf import WireError, framed
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.baselines.messages import (
    Control,
    Copy,
    Rpc,
    RpcLimits,
    decode,
    encode,
    wire_bytes,
)
from smartpubsub.protocols.publication import EventId, Publication
from tests.damage import damaged
from tests.predicates.said import Said, predicate
from tests.predicates.strategies import said
from tests.protocols.strategies import ids, payloads, rpcs, signing_bytes

LIMITS = RpcLimits()
SMALL = RpcLimits(
    event_count_max=2,
    id_count_max=3,
    part_count_max=2,
    predicate_bytes_max=20,
    payload_bytes_max=10,
    attributes_max=3,
)

ID = EventId(b"peer", 2, 3)
SURF = Predicate.parse("surf")
EVENT = Publication.of(ID, SURF, b"hi", b"sig")

TOPIC_HEX = "736d617274707562737562"
SEQUENCE_HEX = "00000002 00000003"  # the incarnation, the number
SIGNED_HEX = (
    "0a 04 70656572"  # field 1: from
    "12 0a"  # field 2, ten bytes: the data
    "0a 04 73757266"  # its field 1: the predicate
    "12 02 6869"  # its field 2: the payload
    f"1a 08 {SEQUENCE_HEX}"  # field 3: the sequence
    f"22 0b {TOPIC_HEX}"  # field 4: the topic
)

GREETING_BYTES = bytes.fromhex(
    "11"  # the length of what follows
    "0a 0f"  # field 1, fifteen bytes: a subscription
    "08 01"  # its field 1: yes
    f"12 0b {TOPIC_HEX}"  # its field 2: the topic
)
EVENT_BYTES = bytes.fromhex(
    "33"  # the length of what follows
    "12 31"  # field 2, 49 bytes: an event
    f"{SIGNED_HEX}"
    "2a 03 736967"  # its field 5: the signature
    "a006 07"  # its field 100, which is ours: the hops
)
CONTROL_BYTES = bytes.fromhex(
    "4f"  # the length of what follows
    "1a 4d"  # field 3, 77 bytes: control
    f"0a 1b 0a 0b {TOPIC_HEX} 12 0c 70656572 {SEQUENCE_HEX}"  # its field 1: ihave
    f"12 0e 0a 0c 70656572 {SEQUENCE_HEX}"  # its field 2: iwant
    f"1a 0d 0a 0b {TOPIC_HEX}"  # its field 3: graft
    f"22 0f 0a 0b {TOPIC_HEX} 18 3c"  # its field 4: prune, with a minute of backoff
)


@pytest.mark.parametrize(
    ("rpc", "data"),
    [
        (Rpc(subscribe=True), GREETING_BYTES),
        (Rpc(publish=(Copy(EVENT, 7),)), EVENT_BYTES),
        (Rpc(control=Control((ID,), (ID,), graft=True, prune_s=60)), CONTROL_BYTES),
    ],
)
def test_messages_are_the_bytes_of_libp2p(rpc: Rpc, data: bytes) -> None:
    assert encode(rpc) == data
    assert decode(data, LIMITS) == rpc


def test_signed_is_what_libp2p_signs_and_not_the_hops() -> None:
    assert signing_bytes(ID, SURF, b"hi") == b"libp2p-pubsub:" + bytes.fromhex(SIGNED_HEX)


@given(ids, said(), payloads)
def test_what_comes_over_the_wire_is_what_was_signed(
    id: EventId, says: Said, payload: bytes
) -> None:
    event = Publication.of(id, predicate(says), payload, b"")

    (came,) = decode(encode(Rpc(publish=(Copy(event, 1),))), LIMITS).publish

    signed = signing_bytes(came.event.id, came.event.predicate, came.event.payload)
    assert signed == signing_bytes(id, event.predicate, payload)


@given(rpcs)
def test_what_is_encoded_is_decoded(rpc: Rpc) -> None:
    assert decode(encode(rpc), LIMITS) == rpc


@given(rpcs)
@example(Rpc())
@example(Rpc(subscribe=False))
@example(Rpc(control=Control()))
def test_the_simulator_counts_the_bytes_that_encoding_gives(rpc: Rpc) -> None:
    assert wire_bytes(rpc) == len(encode(rpc))


def test_what_is_about_other_topics_or_says_nothing_to_us_is_passed_over() -> None:
    body = bytes.fromhex(
        "0a 05 0801 12 01 61"  # a subscription to topic "a"
        "12 0a 0a 01 70 1a 01 31 22 02 6162"  # an event in topic "ab", whose sequence is short
        "1a 21"  # control, all about topic "a"
        "0a 06 0a 01 61 12 01 78"  # ihave, with an id that is none of ours
        "1a 03 0a 01 61"  # graft
        "22 0c 0a 01 61 12 05 0a 01 70 12 00 18 05"  # prune, with a peer instead
        "a2 06 03 616263"  # field 100 of it
    )

    assert decode(framed(body), LIMITS) == Rpc(control=Control())


def test_an_event_of_one_that_does_not_count_hops_has_come_over_one_link() -> None:
    body = EVENT_BYTES[1:-3]
    (came,) = decode(framed(b"\x12\x2e" + body[2:]), LIMITS).publish

    assert came == Copy(EVENT, hops=1)


# --- what is no message ---


@given(st.binary(max_size=200))
@settings(max_examples=500)
def test_random_bytes_are_a_message_or_an_error(data: bytes) -> None:
    assert_message_or_error(data)


@given(st.binary(max_size=120))
@settings(max_examples=500)
def test_random_bodies_of_the_right_length_are_a_message_or_an_error(body: bytes) -> None:
    assert_message_or_error(framed(body))


@given(rpcs, st.data())
@settings(max_examples=300)
def test_mutated_messages_are_a_message_or_an_error(rpc: Rpc, data: st.DataObject) -> None:
    assert_message_or_error(data.draw(damaged(encode(rpc))))


def assert_message_or_error(data: bytes) -> None:
    try:
        rpc = decode(data, LIMITS)
    except WireError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert decode(encode(rpc), LIMITS) == rpc


# --- limits ---


def event_of(
    text: str = "surf", payload: bytes = b"", signature: bytes = b"", publisher: bytes = b"p"
) -> Rpc:
    id = EventId(publisher, 0, 1)
    said = Predicate.parse(text, attributes_max=9)
    return Rpc(publish=(Copy(Publication.of(id, said, payload, signature), 1),))


def events(count: int) -> Rpc:
    return Rpc(publish=event_of().publish * count)


@pytest.mark.parametrize(
    "fits",
    [
        events(2),
        event_of("a/b/c"),
        event_of("x" * 20),
        event_of(payload=b"x" * 10),
        event_of(signature=b"x" * 64),
        event_of(publisher=b"x" * 128),
        Rpc(control=Control(ihave=(ID,) * 3, iwant=(ID,) * 3, prune_s=86_400)),
    ],
)
def test_messages_at_the_limits_are_taken(fits: Rpc) -> None:
    assert decode(encode(fits), SMALL) == fits


@pytest.mark.parametrize(
    ("rpc", "complaint"),
    [
        (events(3), "a list of events of 3 events; at most 2 are taken"),
        (event_of("a/b/c/d"), "a predicate that cannot be read: .*3"),
        (event_of("x" * 21), "a predicate of 21 bytes; at most 20"),
        (event_of("é" * 11), "a predicate of 22 bytes; at most 20"),
        (event_of(payload=b"x" * 11), "a payload of 11 bytes; at most 10"),
        (event_of(signature=b"x" * 65), "a signature of 65 bytes; at most 64"),
        (event_of(publisher=b"x" * 129), "a peer id of 129 bytes; at most 128"),
        (event_of(publisher=b""), "an event has no publisher"),
        (Rpc(control=Control(ihave=(ID,) * 4)), "a list of ids of 4 ids; at most 3"),
        (Rpc(control=Control(iwant=(ID,) * 4)), "a list of ids of 4 ids; at most 3"),
        (Rpc(control=Control(prune_s=86_401)), "a backoff of 86401 s; at most 86400 s"),
    ],
)
def test_messages_beyond_the_limits_are_refused(rpc: Rpc, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode(encode(rpc), SMALL)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (bytes.fromhex("0a 00") * 3, "a list of subscriptions of 3"),
        (bytes.fromhex("1a 06") + bytes.fromhex("0a 00") * 3, "a list of offers of 3"),
        (bytes.fromhex("1a 06") + bytes.fromhex("12 00") * 3, "a list of requests of 3"),
        (bytes.fromhex("1a 06") + bytes.fromhex("1a 00") * 3, "a list of grafts of 3"),
        (bytes.fromhex("1a 06") + bytes.fromhex("22 00") * 3, "a list of prunes of 3"),
    ],
)
def test_many_empty_parts_are_refused(body: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode(framed(body), SMALL)


def event_with_data(data: str) -> bytes:
    inner = bytes.fromhex(f"0a 01 70 {data} 1a 08 {SEQUENCE_HEX} 22 0b {TOPIC_HEX}")
    return framed(b"\x12" + bytes([len(inner)]) + inner)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "do not begin with the length"),
        (GREETING_BYTES[:-1], "17 bytes was announced and 16 are there"),
        (b"\x01\x0a", "no pubsub message"),
        (event_with_data("12 02 0a 05"), "no predicate and payload"),
        (event_with_data("12 03 0a 01 ff"), "no predicate and payload"),
        (event_with_data(""), "a predicate that cannot be read: column 1"),
        (event_with_data("12 04 0a 02 615b"), "a predicate that cannot be read: column 3"),
        (bytes.fromhex("05 1a 03 12 01 0a"), "no pubsub message"),
        (bytes.fromhex("08 1a 06 12 04 0a 02 3131"), "a sequence of 2 bytes; it has 8"),
    ],
)
def test_bytes_that_are_no_message_are_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode(data, LIMITS)


def test_a_message_that_is_too_long_is_refused() -> None:
    rpc = event_of(payload=b"x" * 200)

    with pytest.raises(WireError, match=f"a message of {len(encode(rpc)) - 2} bytes; at most 130"):
        decode(encode(rpc), replace(LIMITS, message_bytes_max=130))


def test_hops_beyond_measure_are_cut_down_so_that_they_can_grow() -> None:
    rpc = Rpc(publish=(Copy(EVENT, (1 << 32) - 1),))

    (copy,) = decode(encode(rpc), LIMITS).publish

    assert copy.hops == LIMITS.hops_max
