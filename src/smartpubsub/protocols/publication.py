"""A published event, with a unique id and the signature of its publisher.

An event is encoded once, as a message of libp2p's pubsub, and sent and stored as these bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from struct import Struct
from typing import NamedTuple, Protocol

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.keys import field_bytes, varint_bytes
from smartpubsub.kademlia.protobuf import framed, varint
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.lazy import Lazy
from smartpubsub.seam import Peer

SEQUENCE_BYTES = 8
SIGNATURE_BYTES = 64
PAYLOAD_BYTES_MAX = 1 << 19
"""Half the largest message, so that an event and its envelope fit into one."""
TIME_END_US = 1 << 53
"""Every event is earlier than this, in the year 2255."""

_ID = re.compile(r"((?:[0-9a-f]{2}){1,8})-([0-9]{1,10})-([0-9]{1,10})")

TOPIC = "smartpubsub"
"""The topic of libp2p's pubsub that contains all events."""
_FIXED_FIELDS_BYTES = field_bytes(SEQUENCE_BYTES) + field_bytes(len(TOPIC))


class EventId(NamedTuple):
    """The publisher of an event, its incarnation, and the number of the event in that incarnation.

    The incarnation grows with every start of the publisher, so no id is ever used again; and the
    ids of one publisher are in the order of publishing.
    """

    publisher: Peer
    incarnation: int
    number: int

    def __str__(self) -> str:
        return _text_of(self)


@lru_cache(maxsize=1 << 9)
def _text_of(id: EventId) -> str:
    return f"{id.publisher[-8:].hex()}-{id.incarnation}-{id.number}"


class EventIdError(SmartPubSubError):
    """A text that is not the id of an event."""


def event_id_from_text(text: str) -> EventId:
    """The id that a text stands for; of the publisher's id, it has only the end.

    >>> event_id_from_text(str(EventId(b"publisher", 7, 1)))
    EventId(publisher=b'ublisher', incarnation=7, number=1)
    """
    found = _ID.fullmatch(text)
    if found is None:
        raise EventIdError(
            f"{text!r} is no id of an event; they are like 9f86d081884c7d65-1767225600-3"
        )
    publisher, incarnation, number = found.groups()
    return EventId(bytes.fromhex(publisher), int(incarnation), int(number))


class _Fields(NamedTuple):
    id: EventId
    predicate: Predicate
    payload: bytes
    signature: bytes
    wire_bytes: int
    created_us: int = 0
    """When it was published, by its publisher's clock; 0 if the publisher does not say."""


class Publication(_Fields):
    """An event with its signature and its length on the wire.

    Simulated nodes need no encoded form, so it is computed on first access.
    """

    verified_by: object = None
    """The verifier that has verified its signature last, and need not do so again."""

    @Lazy
    def encoded(self) -> bytes:
        """The event as libp2p's pubsub writes it, signed and without hops."""
        id, predicate, payload, signature, _, created_us = self
        unsigned = unsigned_bytes(id, predicate, payload, created_us)
        return unsigned + signature_field(signature)

    @Lazy
    def digest(self) -> bytes:
        """A digest of all its content and its signature."""
        return sha256(self.encoded).digest()

    @property
    def signed_bytes(self) -> bytes:
        """The bytes that its publisher has signed: the encoded event without the signature."""
        return SIGNED_FIRST + self.encoded[: -len(signature_field(self.signature))]

    @classmethod
    def read(
        cls,
        id: EventId,
        predicate: Predicate,
        payload: bytes,
        signature: bytes,
        created_us: int,
        encoded: bytes,
    ) -> Publication:
        """An event that was decoded from these bytes."""
        event = cls(id, predicate, payload, signature, len(encoded), created_us)
        event.__dict__["encoded"] = encoded
        return event

    @classmethod
    def of(
        cls,
        id: EventId,
        predicate: Predicate,
        payload: bytes,
        signature: bytes,
        created_us: int = 0,
    ) -> Publication:
        """An event, measured as a message of libp2p's pubsub.

        Its data is a protobuf message of three fields: the predicate, the payload and the time.
        """
        data = field_bytes(len(str(predicate).encode()))
        data += field_bytes(len(payload)) if payload else 0
        data += 1 + varint_bytes(created_us) if created_us else 0
        size = (
            field_bytes(len(id.publisher))
            + field_bytes(data)
            + _FIXED_FIELDS_BYTES
            + field_bytes(len(signature))
        )
        return cls(id, predicate, payload, signature, size, created_us)


# --- encoding ---

SIGNED_FIRST = b"libp2p-pubsub:"
TOPIC_FIELD = b"\x22" + bytes([len(TOPIC)]) + TOPIC.encode()
SEQUENCE_TAG = b"\x1a\x08"
SIGNATURE_TAG = b"\x2a"
_SEQUENCE = Struct(">II")
"""The incarnation, then the number: later events have larger sequences."""


@lru_cache(maxsize=1 << 7)  # Events are signed, and then encoded with their signatures.
def unsigned_bytes(id: EventId, predicate: Predicate, payload: bytes, created_us: int) -> bytes:
    """Encode an event up to its signature, as protobuf does.

    This takes a fifth of protobuf's time; tests compare the two.
    """
    text = str(predicate).encode()
    content = b"\x0a" + framed(text)
    if payload:
        content += b"\x12" + framed(payload)
    if created_us:
        content += b"\x18" + varint(created_us)
    head = b"\x0a" + framed(id.publisher) + b"\x12" + framed(content)
    return head + SEQUENCE_TAG + sequence_of(id) + TOPIC_FIELD


def signature_field(signature: bytes) -> bytes:
    """The end of an encoded event."""
    return SIGNATURE_TAG + framed(signature)


def sequence_of(id: EventId) -> bytes:
    """The incarnation and the number of an event, in eight bytes."""
    return _SEQUENCE.pack(id.incarnation, id.number)


def id_of(publisher: Peer, sequence: bytes) -> EventId:
    """The id of an event with a sequence of eight bytes."""
    return EventId(publisher, *_SEQUENCE.unpack(sequence))


# --- signatures ---


class UnsignedEvent(NamedTuple):
    """An event before it is signed."""

    id: EventId
    predicate: Predicate
    payload: bytes
    created_us: int

    @property
    def encoded(self) -> bytes:
        """Its encoded form up to the signature."""
        return unsigned_bytes(*self)

    def signed(self, signature: bytes) -> Publication:
        """The event with its signature."""
        id, predicate, payload, created_us = self
        return Publication.of(id, predicate, payload, signature, created_us)


class Witness(Protocol):
    """Verifies signatures of peers."""

    def is_statement_of(self, peer: Peer, content: Callable[[], bytes], signature: bytes) -> bool:
        """Whether a signature of some content is a peer's."""
        ...


class Signing(Witness, Protocol):
    """Signs as one peer, and verifies signatures of others."""

    def sign(self, id: EventId, predicate: Predicate, payload: bytes, created_us: int = 0) -> bytes:
        """Sign an event of this peer."""
        ...

    def sign_all(self, unsigned: Sequence[UnsignedEvent]) -> list[bytes]:
        """Sign events of this peer together; return the signature of each of them.

        The events share one signature of a Merkle root; see `smartpubsub.protocols.evidence`.
        """
        ...

    def is_signed(self, publication: Publication) -> bool:
        """Whether an event's signature is its publisher's, alone or shared with other events."""
        ...

    def sign_statement(self, content: Callable[[], bytes]) -> bytes:
        """Sign a statement of this peer."""
        ...

    def sign_statements(self, statements: Sequence[Callable[[], bytes]]) -> list[bytes]:
        """Sign statements of this peer together; return the evidence for each of them."""
        ...

    def is_evidence(self, peer: Peer, statement: Callable[[], bytes], evidence: bytes) -> bool:
        """Whether evidence for a statement is a peer's."""
        ...


def too_long(bytes_max: int = PAYLOAD_BYTES_MAX) -> str:
    """The error text for a payload above the limit."""
    return f"an event carries at most {bytes_max:,} bytes; publish less, or a link to the content"
