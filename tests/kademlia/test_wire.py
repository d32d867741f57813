"""Messages on the wire are libp2p's, and whatever comes is a message or a `WireError`."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message, Record, decode, encode, wire_bytes
from smartpubsub.kademlia.protobuf import WireError
from smartpubsub.kademlia.settings import Settings
from tests.damage import damaged
from tests.kademlia.strategies import messages

LIMITS = Settings()

QUESTION = Message(Kind.FIND_NODE, b"surf")
QUESTION_BYTES = bytes.fromhex(
    "08"  # the length of what follows
    "08 04"  # field 1, a number: FIND_NODE
    "12 04 73757266"  # field 2, four bytes: the key
)

ANSWER = Message(
    Kind.FIND_NODE,
    b"surf",
    closer=(Contact.of(b"\x00\x01p", (bytes.fromhex("047f000001060fa1"),)),),
)
ANSWER_BYTES = bytes.fromhex(
    "19"  # the length of what follows
    "08 04"  # field 1: FIND_NODE
    "12 04 73757266"  # field 2: the key
    "42 0f"  # field 8, fifteen bytes: a closer peer
    "0a 03 000170"  # its field 1: the id
    "12 08 047f000001060fa1"  # its field 2: an address, /ip4/127.0.0.1/tcp/4001
)

PUT = Message(Kind.PUT_VALUE, b"/n/a", Record(b"/n/a", b"1"))
PUT_BYTES = bytes.fromhex(
    "11"  # the length of what follows; PUT_VALUE is 0 and not written
    "12 04 2f6e2f61"  # field 2: the key
    "1a 09"  # field 3, nine bytes: the record
    "0a 04 2f6e2f61"  # its field 1: the key
    "12 01 31"  # its field 2: the value
)


@pytest.mark.parametrize(
    ("message", "data"), [(QUESTION, QUESTION_BYTES), (ANSWER, ANSWER_BYTES), (PUT, PUT_BYTES)]
)
def test_messages_are_the_bytes_of_libp2p(message: Message, data: bytes) -> None:
    assert encode(message) == data
    assert decode(data, LIMITS) == message


@given(messages)
def test_what_is_encoded_is_decoded(message: Message) -> None:
    assert decode(encode(message), LIMITS) == message


@given(messages)
@example(Message(Kind.PUT_VALUE))
@example(Message(Kind.PING))
@example(Message(Kind.PUT_VALUE, record=Record(b"", b"")))
def test_the_simulator_counts_the_bytes_that_encoding_gives(message: Message) -> None:
    assert wire_bytes(message) == len(encode(message))


def test_what_this_implementation_does_not_know_is_passed_over() -> None:
    body = (
        QUESTION_BYTES[1:]
        + bytes.fromhex("50 01")  # field 10: clusterLevelRaw
        + bytes.fromhex("1a 0d 1a 03 616263 22 01 73 2a 03 6e6f77")  # author, signature, time
        + bytes.fromhex("42 05 0a 01 70 18 02")  # a peer with a connection type
        + bytes.fromhex("a2 06 03 616263")  # field 100
    )

    assert decode(bytes([len(body)]) + body, LIMITS) == Message(
        Kind.FIND_NODE, b"surf", Record(b"", b""), (Contact.of(b"p"),)
    )


@given(st.binary(max_size=200))
@settings(max_examples=500)
def test_random_bytes_are_a_message_or_an_error(data: bytes) -> None:
    assert_message_or_error(data)


@given(st.binary(max_size=120))
@settings(max_examples=500)
def test_random_bodies_of_the_right_length_are_a_message_or_an_error(body: bytes) -> None:
    assert_message_or_error(bytes([len(body)]) + body)


@given(messages, st.data())
@settings(max_examples=300)
def test_mutated_messages_are_a_message_or_an_error(message: Message, data: st.DataObject) -> None:
    assert_message_or_error(data.draw(damaged(encode(message))))


def assert_message_or_error(data: bytes) -> None:
    try:
        message = decode(data, LIMITS)
    except WireError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert decode(encode(message), LIMITS) == message


def contact_with(peer: bytes, addresses: int = 0, length: int = 1) -> tuple[Contact, ...]:
    return (Contact.of(peer, (b"a" * length,) * addresses),)


@pytest.mark.parametrize(
    "fits",
    [
        Message(Kind.FIND_NODE, b"n" * 1032),
        Message(Kind.PUT_VALUE, record=Record(b"n" * 1032, b"v" * 65_536)),
        Message(Kind.FIND_NODE, closer=contact_with(b"p") * 100),
        Message(Kind.FIND_NODE, providers=contact_with(b"p") * 100),
        Message(Kind.FIND_NODE, closer=contact_with(b"p" * 128, 16, 512)),
    ],
)
def test_messages_at_the_limits_are_taken(fits: Message) -> None:
    assert decode(encode(fits), LIMITS) == fits


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (Message(Kind.FIND_NODE, b"n" * 1033), "a name of 1033 bytes; at most 1032"),
        (Message(Kind.PUT_VALUE, record=Record(b"n" * 1033, b"")), "name of a record of 1033"),
        (Message(Kind.PUT_VALUE, record=Record(b"", b"v" * 65_537)), "a value of 65537 bytes"),
        (Message(Kind.FIND_NODE, closer=contact_with(b"p") * 101), "list of peers of 101 peers"),
        (Message(Kind.FIND_NODE, providers=contact_with(b"p") * 101), "list of peers of 101"),
        (Message(Kind.FIND_NODE, closer=contact_with(b"p" * 129)), "a peer id of 129 bytes"),
        (Message(Kind.FIND_NODE, closer=contact_with(b"")), "a peer has no id"),
        (Message(Kind.FIND_NODE, closer=contact_with(b"p", 17)), "a list of addresses of 17"),
        (Message(Kind.FIND_NODE, closer=contact_with(b"p", 1, 513)), "an address of 513 bytes"),
    ],
)
def test_messages_beyond_the_limits_are_refused(message: Message, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode(encode(message), LIMITS)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "do not begin with the length"),
        (b"\x80", "do not begin with the length"),
        (b"\xff\xff\xff\xff\xff\x01", "do not begin with the length"),
        (b"\x81\x80\x80\x02", "a message of 4194305 bytes; at most 4194304 are taken"),
        (QUESTION_BYTES + b"\x00", "8 bytes was announced and 9 are there"),
        (QUESTION_BYTES[:-1], "8 bytes was announced and 7 are there"),
        (b"\x02\x08\x06", "no message of type 6"),
        (b"\x01\x08", "no kad-dht message"),
        (bytes.fromhex("05 1a 03 2a 01 ff"), "no kad-dht message"),
    ],
)
def test_bytes_that_are_no_message_are_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode(data, LIMITS)
