"""A declared message is written, read and measured; what a declaration cannot mean is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.protobuf import WireError, framed
from smartpubsub.kademlia.settings import Settings
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery import messages as fast
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pulsarcast import messages as pulsar
from smartpubsub.protocols.runtime.messages import (
    FIELDS_MAX,
    NUMBER_MAX,
    Attribute,
    Few,
    Kind,
    ListEnvelope,
    MessageLimits,
    NumberedEnvelope,
    PeerId,
    Signature,
    Unchecked,
)
from smartpubsub.protocols.scoutsubs import messages as scout
from tests.predicates.said import predicate
from tests.predicates.strategies import said
from tests.protocols.strategies import ids, peers, publications

SURF = Predicate.parse("surf")
ID = EventId(b"peer", 2, 300)
CONTACT = Contact.of(b"q", (b"address",))

LETTERS = ListEnvelope("test_letters", "Letter")
LIMITS = MessageLimits(message_bytes_max=1 << 20, part_count_max=100)


class Entry(NamedTuple):
    peer: PeerId
    height: int


@LETTERS.message(1)
class Everything(NamedTuple):
    number: int
    flag: bool
    text: str
    attribute: Attribute
    peer: PeerId
    signature: Signature
    block: Unchecked
    predicate: Predicate
    event: Publication
    id: EventId
    entry: Entry
    maybe: Contact | None
    numbers: tuple[int, ...]
    entries: tuple[Entry, ...]
    contacts: Few[Contact] = ()


@LETTERS.message(16, "empty_one")
class Nothing(NamedTuple):
    pass


LETTERS.compile()

PACKETS = NumberedEnvelope("test_packets", "Packet")


@PACKETS.message(2)
class Count(NamedTuple):
    number: int


PACKETS.compile()

EVERYTHING = Everything(
    300,
    True,
    "text",
    "surf",
    b"p",
    b"sig",
    b"block",
    SURF,
    Publication.of(ID, SURF, b"hi", b"sig"),
    ID,
    Entry(b"e", 1),
    CONTACT,
    (1, 300),
    (Entry(b"f", 2), Entry(b"", 0)),
    (CONTACT,),
)


def decoded(data: bytes, limits: MessageLimits | None = None) -> tuple[Any, ...]:
    return LETTERS.decode(data, limits or LIMITS)


# --- round trips and sizes ---


@pytest.mark.parametrize(
    "messages",
    [
        (),
        (EVERYTHING,),
        (EVERYTHING._replace(number=0, flag=False, text="", maybe=None, numbers=(), entries=()),),
        (Nothing(),),
        (Nothing(), EVERYTHING, Nothing()),
    ],
)
def test_messages_are_read_as_they_were_written_and_as_long_as_measured(
    messages: tuple[Any, ...],
) -> None:
    data = LETTERS.encode(messages)

    assert decoded(data) == messages
    assert list(map(type, decoded(data))) == list(map(type, messages))
    assert LETTERS.wire_bytes(messages) == len(data)


def test_a_numbered_envelope_has_one_message() -> None:
    data = PACKETS.encode(7, Count(300))

    assert PACKETS.decode(data, LIMITS) == (7, Count(300))
    assert PACKETS.wire_bytes(7, Count(300)) == len(data)


@cache
def values(hint: Any) -> st.SearchStrategy[Any]:
    """Values of the type of a field, within what can be written."""
    by_type: dict[Any, st.SearchStrategy[Any]] = {
        int: st.sampled_from([0, 1, 127, 128, 16_384, NUMBER_MAX]) | st.integers(0, NUMBER_MAX),
        bool: st.booleans(),
        str: st.text(max_size=40) | st.just("é" * 100),
        bytes: st.binary(max_size=40) | st.just(bytes(150)),
        Predicate: said().map(predicate),
        Publication: publications,
        EventId: ids,
        Contact: st.builds(Contact.of, peers, st.lists(st.binary(max_size=200)).map(tuple)),
    }
    if hint in by_type:
        return by_type[hint]
    inner = get_args(hint)
    if get_origin(hint) is Annotated:
        return values(inner[0])
    if get_origin(hint) is tuple:
        if inner[1:] == (Ellipsis,):
            return st.lists(values(inner[0]), max_size=3).map(tuple)
        return st.tuples(*map(values, inner))
    if inner[1:] == (NoneType,):
        return st.none() | values(inner[0])
    if inner:  # A fragment of one of many messages.
        return st.one_of(*[values(each) for each in inner if each is not scout.Piece])
    hints = get_type_hints(hint, include_extras=True)
    fields = [values(hints[name]) for name in hint._fields]
    return st.tuples(*fields).map(lambda drawn: hint(*drawn))


def in_bundle(message: Any) -> tuple[int, bytes]:
    bundle = scout.Bundle((message, message))
    return scout.wire_bytes(bundle), scout.encode(bundle)


def in_packet(message: Any) -> tuple[int, bytes]:
    packet = fast.Packet(300, message)
    return fast.wire_bytes(packet), fast.encode(packet)


def in_parcel(message: Any) -> tuple[int, bytes]:
    parcel = pulsar.Parcel((message,))
    return pulsar.wire_bytes(parcel), pulsar.encode(parcel)


SENT: list[Any] = [
    *((kind, in_bundle) for kind in get_args(scout.Part)),
    *((kind, in_packet) for kind in (*get_args(fast.Question), *get_args(fast.Answer))),
    *((kind, in_parcel) for kind in get_args(pulsar.Part)),
]


@pytest.mark.parametrize(("kind", "envelope"), SENT, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=15)
def test_every_message_of_every_protocol_is_as_long_as_measured(
    kind: Any, envelope: Callable[[Any], tuple[int, bytes]], data: st.DataObject
) -> None:
    size, encoded = envelope(data.draw(values(kind)))

    assert size == len(encoded)


# --- the schema ---


def test_fields_are_numbered_in_their_order_under_their_names() -> None:
    part = LETTERS.buffer.DESCRIPTOR.fields_by_name["parts"].message_type
    declared = {field.name: (field.number, field.message_type) for field in part.fields}
    number, message = declared["everything"]

    assert number == 1
    assert [(f.name, f.number) for f in message.fields] == [
        (name, place) for place, name in enumerate(Everything._fields, 1)
    ]
    assert declared["empty_one"][0] == 16
    assert LETTERS.names == {Everything: "everything", Nothing: "empty_one"}


# --- what the decoder refuses or ignores ---


def test_unknown_fields_and_messages_are_ignored() -> None:
    body = bytes.fromhex(
        "0a 04 fa0601 78"  # a message with the number 111
        "0a 06 8201 03 a006 07"  # an empty one, with a field 100
        "fa06 01 78"  # field 111 of the envelope
    )

    assert decoded(framed(body)) == (Nothing(),)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"number": NUMBER_MAX + 1}, "a number of"),
        ({"text": "x" * 11}, "a text of 11 bytes; at most 10"),
        ({"attribute": ""}, "an attribute has no name"),
        ({"attribute": "x" * 1025}, "an attribute of 1025 bytes"),
        ({"peer": b"p" * 129}, "a peer id of 129 bytes"),
        ({"signature": b"s" * 65}, "a signature of 65 bytes"),
        ({"id": EventId(b"", 1, 1)}, "an event has no publisher"),
        ({"entry": Entry(b"p" * 129, 1)}, "a peer id of 129 bytes"),
        ({"maybe": Contact.of(b"", (b"a",))}, "a peer has no id"),
        ({"numbers": (1,) * 7}, "lists of more than 6 entries together"),
        ({"numbers": (1,) * 4, "entries": (Entry(b"", 0),) * 3}, "lists of more than 6 entries"),
        ({"contacts": (CONTACT,) * 3}, "a list of peers of 3 peers; at most 2"),
    ],
)
def test_messages_beyond_the_limits_are_refused(changes: dict[str, Any], problem: str) -> None:
    limits = MessageLimits(
        entry_count_max=6, text_bytes_max=10, contacts=Settings(contact_count_max=2)
    )
    assert decoded(LETTERS.encode([EVERYTHING]), limits) == (EVERYTHING,)

    with pytest.raises(WireError, match=problem):
        decoded(LETTERS.encode([EVERYTHING._replace(**changes)]), limits)


def test_an_envelope_of_too_many_messages_is_refused() -> None:
    with pytest.raises(WireError, match="a letter of 101 parts; at most 100"):
        decoded(LETTERS.encode([Nothing()] * (LIMITS.part_count_max + 1)))


def test_a_numbered_envelope_without_a_known_message_is_refused() -> None:
    with pytest.raises(WireError, match="a packet without a part that is known"):
        PACKETS.decode(framed(bytes.fromhex("0801")), LIMITS)


# --- declarations that are refused at import ---


def compiled(*messages: Any) -> None:
    envelope = ListEnvelope("test_refused", "Letter")
    for number, message in enumerate(messages, 1):
        envelope.message(number)(message)
    envelope.compile()


class OfNoKind(NamedTuple):
    share: float


class NoneForANumber(NamedTuple):
    number: int | None


class WithoutSize(NamedTuple):
    number: Annotated[int, Kind("uint64", write=lambda number: number + 1)]


class _Entry(NamedTuple):
    other: int


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([OfNoKind], "share: .* is no type of a field; see the table in"),
        ([NoneForANumber], "NoneForANumber.number: only a message can be None"),
        ([WithoutSize], "WithoutSize.number: its kind lacks a size"),
        ([Entry, _Entry], "test_refused.Entry"),
        ([NamedTuple("Long", [(f"f{n}", int) for n in range(FIELDS_MAX + 1)])], "more than 15"),
    ],
)
def test_a_declaration_that_cannot_be_written_is_refused(messages: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        compiled(*messages)


def test_two_messages_with_one_number_are_refused() -> None:
    envelope = ListEnvelope("test_refused", "Letter")
    envelope.message(1)(Entry)

    with pytest.raises(TypeError, match="two messages of test_refused have the number 1"):
        envelope.message(1)(Nothing)
