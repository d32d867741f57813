"""Parcels go over a connection and come out as they went in, or not at all."""

import pytest

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.protobuf import WireError, framed
from smartpubsub.protocols.blocks import cid_of
from smartpubsub.protocols.pulsarcast import messages
from smartpubsub.protocols.pulsarcast.messages import (
    PARCEL_LIMITS,
    PART_KINDS,
    Head,
    Parcel,
    ParcelBuffer,
    Part,
    Spread,
    contacts_in,
    decode,
    encode,
    wire_bytes,
)

TOPIC_ID, TOPIC, ONE, TWO = (cid_of(bytes([number])) for number in range(4))
HEADS = (Head(ONE, 7), Head(TWO, 300))
FRIEND = Contact.of(b"friend", (b"\x04\x7f\x00\x00\x01",))

SAID: list[Part] = [
    messages.JoinTopic(TOPIC_ID, TOPIC, 12),
    messages.Welcome(TOPIC_ID, TOPIC, HEADS),
    messages.JoinElsewhere(TOPIC_ID, FRIEND),
    messages.JoinElsewhere(TOPIC_ID, None),
    messages.Wait(TOPIC_ID),
    messages.Leave(TOPIC_ID),
    messages.Beat(TOPIC_ID, TOPIC, HEADS, 3, True),
    messages.Beat(TOPIC_ID, TOPIC, (), 0, False),
    messages.Spread(b"block", 2),
    messages.Fetch(TOPIC_ID, 5, (ONE,), (TWO,), 1_700_000_000_000_000),
    messages.Range(TOPIC_ID, 6, Head(ONE, 3), 5, 0),
    messages.Range(TOPIC_ID, 6, None, 0, 10),
    messages.Page(TOPIC_ID, 7, (b"a", b"", b"c"), True, (TWO,)),
    messages.Page(TOPIC_ID, 7, (), False, (), HEADS, (ONE, TWO)),
    messages.WantBlocks((ONE, TWO)),
    messages.Described((b"topic",)),
    messages.InviteKeeper(TOPIC_ID, TOPIC),
    messages.KeepEvents(TOPIC_ID, TOPIC, (b"event",)),
    messages.Kept(TOPIC_ID, (ONE,)),
    messages.PublishRequest(TOPIC_ID, 1, 2, 1, b"draft"),
    messages.Granted(TOPIC_ID, 1, 2, "unauthorised"),
]


@pytest.mark.parametrize("part", SAID, ids=lambda part: type(part).__name__)
def test_every_part_reads_back_and_is_as_long_as_is_said(part: Part) -> None:
    parcel = Parcel((part,))
    written = encode(parcel)

    assert decode(written, PARCEL_LIMITS) == parcel
    assert wire_bytes(parcel) == len(written)


def test_no_kind_of_part_is_forgotten() -> None:
    assert set(map(type, SAID)) == set(PART_KINDS)


@pytest.mark.parametrize("size", [1, 100, 127, 128, 5_000, 20_000])
@pytest.mark.parametrize("hops", [1, 127, 128])
def test_spread_events_are_measured_without_encoding_them(size: int, hops: int) -> None:
    parcel = Parcel((Spread(bytes(size), hops),))

    assert wire_bytes(parcel) == len(encode(parcel))


def test_several_parts_go_in_one_parcel() -> None:
    parcel = Parcel(tuple(SAID))

    assert decode(encode(parcel), PARCEL_LIMITS) == parcel
    assert list(contacts_in(parcel)) == [FRIEND]


@pytest.mark.parametrize(
    "part",
    [
        messages.Wait(b"room"),
        messages.Kept(TOPIC_ID, (b"x",)),
        messages.Welcome(TOPIC_ID, TOPIC, (Head(b"", 1),)),
        messages.Granted(TOPIC_ID, 1, 1, "x" * 2_000),
        messages.PublishRequest(TOPIC_ID, 1 << 63, 1, 1, b""),
        messages.Page(TOPIC_ID, 1, (b"",) * 10_001, False),
        messages.JoinElsewhere(TOPIC_ID, Contact.of(bytes(200))),
    ],
    ids=lambda part: type(part).__name__,
)
def test_what_is_beyond_the_limits_is_refused_whole(part: Part) -> None:
    with pytest.raises(WireError):
        decode(encode(Parcel((part,))), PARCEL_LIMITS)


def test_unknown_parts_are_passed_over() -> None:
    buffer = ParcelBuffer()
    buffer.parts.add()

    assert decode(framed(buffer.SerializeToString()), PARCEL_LIMITS) == Parcel(())


@pytest.mark.parametrize("data", [b"", b"\x05abc", framed(b"\xff\xff\xff")])
def test_other_bytes_are_no_parcel(data: bytes) -> None:
    with pytest.raises(WireError):
        decode(data, PARCEL_LIMITS)
