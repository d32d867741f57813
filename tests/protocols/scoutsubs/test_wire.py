"""Bundles on the wire are what they were, and whatever comes is a bundle or a `WireError`."""

from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.protobuf import WireError, framed
from smartpubsub.kademlia.settings import Settings
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.baselines.messages import RpcLimits
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.runtime.messages import MessageLimits
from smartpubsub.protocols.scoutsubs import messages
from smartpubsub.protocols.scoutsubs.messages import (
    NO_PEER,
    PART_KINDS,
    WHOLE,
    Bundle,
    BundleBuffer,
    Part,
    decode,
    decode_pieces,
    encode,
    wire_bytes,
)
from tests.damage import damaged
from tests.protocols.scoutsubs.strategies import NUMBER_MAX, bundles

LIMITS = MessageLimits()
SMALL = MessageLimits(
    part_count_max=3,
    entry_count_max=4,
    text_bytes_max=10,
    events=RpcLimits(predicate_bytes_max=20, attributes_max=3, payload_bytes_max=10),
    contacts=Settings(contact_count_max=2),
)

ID = EventId(b"peer", 2, 300)
SURF = Predicate.parse("surf")
CONTACT = Contact.of(b"p", (b"a",))
EVENT = Publication.of(ID, SURF, b"hi", b"sig")
CHILD = messages.ChildCopy(CONTACT, 1, 2, (SURF,), None, ())

ID_HEX = "0a 0b 0a 04 70656572 10 02 18 ac02"  # field 1, eleven bytes: who, incarnation, number
ATTRIBUTE_HEX = "12 04 73757266"  # field 2: surf
EVENT_HEX = (
    "0a 2e"  # field 1, 46 bytes: a message of libp2p's pubsub
    "0a 04 70656572"  # its field 1: from
    "12 0a 0a 04 73757266 12 02 6869"  # its field 2: predicate and payload
    "1a 08 00000002 0000012c"  # its field 3: the sequence
    "22 0b 736d617274707562737562"  # its field 4: the topic
    "2a 03 736967"  # its field 5: the signature
)


def bundle(*said: Part) -> Bundle:
    return Bundle(said)


@pytest.mark.parametrize(
    ("said", "data"),
    [
        (
            messages.Notify(EVENT, "surf", 3, False, NO_PEER),
            f"3c 0a 3a 0a 38 {EVENT_HEX} {ATTRIBUTE_HEX} 18 03",
        ),
        (
            messages.Notify(EVENT, "surf", 3, True, b"q"),
            f"41 0a 3f 0a 3d {EVENT_HEX} {ATTRIBUTE_HEX} 18 03 20 01 2a 01 71",
        ),
        (messages.Confirm(ID, "surf", NO_PEER), f"17 0a 15 12 13 {ID_HEX} {ATTRIBUTE_HEX}"),
        (
            messages.Announce("surf", 1, 5, 4, (SURF,), (), CONTACT, (CONTACT,), False),
            "26 0a 24 2a 22"
            "0a 04 73757266"  # field 1: the attribute
            "10 01 18 05 20 05"  # fields 2 to 4: incarnation, version, one more than the base
            "2a 04 73757266"  # field 5: a predicate that was added
            "3a 06 0a 01 70 12 01 61"  # field 7: the shortcut
            "42 06 0a 01 70 12 01 61",  # field 8: a backup
        ),
        (
            messages.Announce("surf", 0, 0, WHOLE, (), (), None, (), True),
            "0c 0a 0a 2a 08 0a 04 73757266 48 01",
        ),
        (messages.PullOwn(), "05 0a 03 9201 00"),
    ],
    ids=["notify", "notify again", "confirm", "announce", "announce whole", "pull own"],
)
def test_bundles_are_these_bytes(said: Part, data: str) -> None:
    assert encode(bundle(said)).hex() == bytes.fromhex(data).hex()
    assert decode(bytes.fromhex(data), LIMITS) == bundle(said)


@given(bundles)
def test_what_is_encoded_is_decoded(sent: Bundle) -> None:
    assert decode(encode(sent), LIMITS) == sent


@given(bundles)
@example(bundle())
@example(bundle(messages.PullOwn()))
@example(bundle(messages.Pull("")))
@example(bundle(messages.CopyTree("a", True, 1, True, (), (b"",))))
def test_the_simulator_counts_the_bytes_that_encoding_gives(sent: Bundle) -> None:
    assert wire_bytes(sent) == len(encode(sent))


def test_an_event_is_written_once_where_parts_that_follow_are_about_it_too() -> None:
    other = Publication.of(ID._replace(number=301), SURF, b"ho", b"sig")
    parts: list[Part] = [
        messages.Notify(EVENT, "surf", 1, False, NO_PEER),
        messages.Probe(1),
        messages.Record(EVENT, "surf", 1, False, 0),
        messages.Record(other, "surf", 1, False, 0),
        messages.Raise(other, "price", 0, 1, False, False, 0),
        messages.Record(EVENT, "price", 1, False, 0),
    ]
    data = encode(bundle(*parts))

    assert decode(data, LIMITS) == bundle(*parts)
    assert wire_bytes(bundle(*parts)) == len(data)
    assert [data.count(event.encoded) for event in (EVENT, other)] == [2, 1]
    in_pieces = [*parts, *[messages.Record(EVENT, "surf", 1, False, n) for n in range(200)]]
    pieces = decode_pieces(encode(bundle(*in_pieces)), LIMITS)
    assert [part for piece in pieces for part in piece.parts] == in_pieces


def test_a_part_without_an_event_that_follows_none_is_no_bundle() -> None:
    body = bytes.fromhex("0a 08 4a 06 12 04 73757266")  # A record of the attribute surf.

    with pytest.raises(WireError):
        decode(framed(body), LIMITS)


def test_the_same_attributes_in_another_order_are_as_long() -> None:
    for text in ("surf/price[10,20]", "price[10,20]/surf"):
        sent = bundle(announce(text))
        assert wire_bytes(sent) == len(encode(sent))


def test_every_part_has_its_place_and_its_fields_in_a_bundle() -> None:
    declared = BundleBuffer.DESCRIPTOR.fields_by_name["parts"].message_type
    fields = {
        field.message_type.name: [inner.name for inner in field.message_type.fields]
        for field in declared.fields
    }

    assert fields == {kind.__name__: list(kind._fields) for kind in get_args(Part)}
    assert fields.keys() == {kind.__name__ for kind in PART_KINDS}


def test_what_this_implementation_does_not_know_is_passed_over() -> None:
    body = bytes.fromhex(
        "0a 04 fa0601 78"  # a part with number 111
        "0a 00"  # one without anything
        "0a 0b 82 01 08 0a 01 61 fa06 02 7878"  # a pull, with a field 111
        "fa06 02 7878"  # field 111 of the bundle
    )

    assert decode(framed(body), LIMITS) == bundle(messages.Pull("a"))


def test_of_several_in_one_part_the_last_counts() -> None:
    body = bytes.fromhex("0a 07 9201 00 3a 02 08 05")

    assert decode(framed(body), LIMITS) == bundle(messages.Probe(5))


# --- what is no bundle ---


@given(st.binary(max_size=200))
@settings(max_examples=500)
def test_random_bytes_are_a_bundle_or_an_error(data: bytes) -> None:
    assert_bundle_or_error(data)


@given(st.sampled_from(range(1, 21)), st.binary(max_size=120))
@settings(max_examples=500)
def test_random_parts_are_a_bundle_or_an_error(number: int, content: bytes) -> None:
    tag = number << 3 | 2
    tag_bytes = bytes([tag]) if tag < 128 else bytes([tag & 0x7F | 0x80, tag >> 7])
    assert_bundle_or_error(framed(b"\x0a" + framed(tag_bytes + framed(content))))


@given(bundles, st.data())
@settings(max_examples=300)
def test_mutated_bundles_are_a_bundle_or_an_error(sent: Bundle, data: st.DataObject) -> None:
    assert_bundle_or_error(data.draw(damaged(encode(sent))))


def assert_bundle_or_error(data: bytes) -> None:
    try:
        came = decode(data, LIMITS)
    except WireError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert decode(encode(came), LIMITS) == came


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "do not begin with the length"),
        (bytes.fromhex("05 0a 03 9201"), "5 bytes was announced and 4 are there"),
        (bytes.fromhex("02 0a 05"), "the bytes are no bundle"),
        (framed(bytes.fromhex("0a 06 8201 03 0a 01 ff")), "the bytes are no bundle"),
        (framed(bytes.fromhex("0a 03 8201 00")), "an attribute has no name"),
        (framed(bytes.fromhex("0a 05 12 03 12 01 61")), "an event has no publisher"),
        (framed(bytes.fromhex("0a 02 0a 00")), "an event in another topic"),
        (framed(bytes.fromhex("0a 05 0a 03 0a 01 0a")), "the bytes are no event"),
        (
            framed(bytes.fromhex("0a 07 0a 05 0a 03 22 01 ff")),
            "an event in another topic than 'smartpubsub'",
        ),
        (framed(bytes.fromhex("0a 0a 2a 08 0a 01 61 3a 03 12 01 61")), "a peer has no id"),
        (framed(bytes.fromhex("0a 07 2a 05 0a 01 61 42 00")), "a peer has no id"),
        (framed(bytes.fromhex("0a 08 2a 06 0a 01 61 2a 01 5b")), "a predicate that cannot be read"),
    ],
)
def test_bytes_that_are_no_bundle_are_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode(data, LIMITS)


# --- limits ---


def announce(*added: str, shortcut: Contact | None = None, backups: int = 0) -> Part:
    predicates = tuple(Predicate.parse(text, attributes_max=9) for text in added)
    return messages.Announce("a", 0, 1, 0, predicates, (), shortcut, (CONTACT,) * backups, False)


def raised(text: str = "surf", payload: bytes = b"", publisher: bytes = b"p") -> Part:
    event = Publication.of(
        EventId(publisher, 0, 1), Predicate.parse(text, attributes_max=9), payload, b""
    )
    return messages.Raise(event, "a", 0, 1, False, False, 0)


def copied(children: int, gone: int = 0) -> Part:
    return messages.CopyTree("a", True, 1, True, (CHILD,) * children, (b"p",) * gone)


@pytest.mark.parametrize(
    "fits",
    [
        bundle(*[messages.PullOwn()] * 3),
        bundle(messages.Pull("n" * 1024)),
        bundle(messages.Admitted(ID, "a", "x" * 10)),
        bundle(messages.Confirm(EventId(b"p" * 128, 0, 1), "a", b"p" * 128)),
        bundle(messages.Probe(NUMBER_MAX)),
        bundle(announce("a", "b"), announce("c", "d")),
        bundle(announce("a/b/c", "x" * 20)),
        bundle(announce(shortcut=Contact.of(b"p" * 128, (b"a" * 512,) * 16), backups=2)),
        bundle(raised("a/b/c", b"x" * 10, b"p" * 128)),
        bundle(copied(children=1, gone=2)),  # The child has a filter, which counts too.
        bundle(messages.PulledOwn((("a", (CHILD,)),))),
    ],
)
def test_bundles_at_the_limits_are_taken(fits: Bundle) -> None:
    assert decode(encode(fits), SMALL) == fits


@pytest.mark.parametrize(
    ("beyond", "complaint"),
    [
        ([messages.PullOwn()] * 4, "a bundle of 4 parts; at most 3 are taken"),
        ([messages.Pull("n" * 1025)], "an attribute of 1025 bytes; at most 1024"),
        ([messages.Pull("é" * 513)], "an attribute of 1026 bytes; at most 1024"),
        ([messages.Admitted(ID, "a", "x" * 11)], "a text of 11 bytes; at most 10"),
        ([messages.Confirm(EventId(b"p" * 129, 0, 1), "a", NO_PEER)], "a peer id of 129 bytes"),
        ([messages.Confirm(ID, "a", b"p" * 129)], "a peer id of 129 bytes"),
        ([messages.Done(ID, "a", 64)], "an acknowledgement of 65 events; at most 64"),
        ([messages.Done(ID, "a", 3), messages.Done(ID, "a", 2)], "more than 4 entries"),
        ([messages.Probe(NUMBER_MAX + 1)], f"a number of {NUMBER_MAX + 1}; at most {NUMBER_MAX}"),
        ([announce("a/b/c/d")], "a predicate that cannot be read: .*3"),
        ([announce("x" * 21)], "a predicate of 21 bytes; at most 20"),
        ([announce(backups=3)], "a list of peers of 3 peers; at most 2"),
        ([announce(shortcut=Contact.of(b"p" * 129))], "a peer id of 129 bytes"),
        ([announce(shortcut=Contact.of(b"p", (b"",) * 17))], "a list of addresses of 17 addresses"),
        ([announce(shortcut=Contact.of(b"p", (b"a" * 513,)))], "an address of 513 bytes"),
        ([raised("a/b/c/d")], "a predicate that cannot be read: .*3"),
        ([raised(payload=b"x" * 11)], "a payload of 11 bytes; at most 10"),
        ([raised(publisher=b"p" * 129)], "a peer id of 129 bytes"),
        ([announce("a", "b"), announce("c", "d", "e")], "lists of more than 4 entries together"),
        ([copied(children=1, gone=3)], "lists of more than 4 entries together"),
        ([copied(children=3)], "lists of more than 4 entries together"),
        ([messages.PulledOwn((("a", ()),) * 5)], "lists of more than 4 entries together"),
        (
            [
                messages.Pulled(
                    "a", False, NO_PEER, (), (messages.Record(EVENT, "a", 0, False, 0),) * 5
                )
            ],
            "lists",
        ),
    ],
)
def test_bundles_beyond_the_limits_are_refused(beyond: list[Part], complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode(encode(bundle(*beyond)), SMALL)


def test_a_bundle_that_is_too_long_is_refused() -> None:
    sent = encode(bundle(raised(payload=b"x" * 200)))

    with pytest.raises(WireError, match=f"a message of {len(sent) - 2} bytes; at most 130"):
        decode(sent, MessageLimits(message_bytes_max=130))
