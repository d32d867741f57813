"""Blocks of events, as nodes store them, as columns.

A column is made when a schema asks for it. Content ids are computed from the blocks, so a row's
`cid` is verified by being there.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, TypeAlias

import cbor2
import numpy as np
import pyarrow as pa

from smartpubsub.node.identity import peer_text
from smartpubsub.predicates import Predicate
from smartpubsub.predicates.numbers import Exact
from smartpubsub.protocols.blocks import cid_of, cid_text
from smartpubsub.protocols.event_blocks import event_block
from smartpubsub.protocols.publication import EventId, Publication

_ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", dtype=np.uint8)
_WEIGHTS = np.array([16, 8, 4, 2, 1], dtype=np.uint8)
_CID_HEAD = cid_of(b"")[:4]
_CID_CHARACTERS = len(cid_text(cid_of(b"")))
_TIME = pa.timestamp("us", tz="UTC")


class Events(ABC):
    """Events of any kind, each column in the order of the blocks."""

    def __init__(self, stored: Sequence[bytes]) -> None:
        self.stored = stored
        self.publisher_ids: Sequence[bytes]
        self.payloads: Sequence[bytes]

    @property
    @abstractmethod
    def blocks(self) -> Sequence[bytes | None]:
        """The blocks that content ids are of; None if an event has none."""

    @property
    @abstractmethod
    def event_ids(self) -> list[str]:
        """The ids that authors gave to their events."""

    @property
    @abstractmethod
    def cids(self) -> pa.Array:
        """Content ids."""

    @property
    @abstractmethod
    def times(self) -> pa.Array:
        """When they were published."""

    @cached_property
    @abstractmethod
    def predicates(self) -> list[Predicate]:
        """Their attributes."""

    @property
    def publishers(self) -> list[str]:
        """The peers that published them."""
        return [*map(_peer, self.publisher_ids)]

    @cached_property
    def json_payloads(self) -> list[Any]:
        """The payloads read as JSON, None where they are something else."""
        return [*map(_json, self.payloads)]

    @property
    def values(self) -> list[dict[str, object]]:
        """The attributes of each event that have one value: a number, or True for a topic."""
        return [*map(_values, self.predicates)]

    @property
    def topics(self) -> list[list[str]]:
        """The attributes without numbers."""
        return [*map(_topics, self.predicates)]

    @property
    def ranges(self) -> list[list[dict[str, object]]]:
        """The attributes with numbers; an open bound is None."""
        return [*map(_ranges, self.predicates)]


class TopicEvents(Events):
    """Events of topics: their blocks are what nodes exchange."""

    def __init__(self, blocks: Sequence[bytes]) -> None:
        super().__init__(blocks)
        columns = zip(*map(_fields_of, blocks), strict=True)
        self._topic_ids, self._authors, self._created, *rest = columns
        self._starts, self._numbers, self.publisher_ids, self.payloads = rest

    @property
    def event_ids(self) -> list[str]:
        return [*map(_id, self._authors, self._starts, self._numbers)]

    @property
    def blocks(self) -> Sequence[bytes]:
        return self.stored

    @property
    def cids(self) -> pa.Array:
        return _cid_texts([sha256(block).digest() for block in self.stored])

    @property
    def times(self) -> pa.Array:
        return pa.array(self._created).cast(pa.string()).cast(_TIME)

    @cached_property
    def predicates(self) -> list[Predicate]:
        return [*map(_topic, self._topic_ids)]


class StoredEvents(Events):
    """Events as a node stores those that match a subscription."""

    def __init__(self, blocks: Sequence[bytes]) -> None:
        super().__init__(blocks)
        self._decoded: list[dict[str, Any]] = [*map(cbor2.loads, blocks)]
        self.publisher_ids = [fields["publisher"] for fields in self._decoded]
        self.payloads = [fields["payload"] for fields in self._decoded]

    @property
    def event_ids(self) -> list[str]:
        return [_id(each["publisher"], each["start"], each["number"]) for each in self._decoded]

    @cached_property
    def blocks(self) -> list[bytes | None]:
        return [*map(_block, self._decoded, self.predicates)]

    @property
    def cids(self) -> pa.Array:
        texts = (None if block is None else cid_text(cid_of(block)) for block in self.blocks)
        return pa.array([*texts], pa.string())

    @property
    def times(self) -> pa.Array:
        return pa.array([fields["created"] or None for fields in self._decoded], _TIME)

    @cached_property
    def predicates(self) -> list[Predicate]:
        texts = (fields["predicate"] for fields in self._decoded)
        return [Predicate.parse(text, attributes_max=len(text)) for text in texts]


# --- blocks of topics ---

# Nearly all blocks have the fields in these lengths, and reading them so takes a fifth of the time.
_BEFORE = re.compile(
    rb"\xa7etopic\xd8\x2aX\x25\x00(.{36})fauthorX\x26(.{38})"
    rb"gparents[\x80-\x88](?:\xd8\x2aX\x25\x00.{36})*gpayload(?:([\x40-\x57])|X(.)|Y(..))",
    re.DOTALL,
)
_NUMBER = rb"([\x00-\x17]|\x18.|\x19..|\x1a....)"
_AFTER = re.compile(
    rb"hmetadata\xa5estart%bfheight%bfnumber%bgcreatedx\x1b(.{27})"
    rb"oprotocolVersion.{6}ipublisherX\x26(.{38})jsignatures[\x81\x82]X@" % ((_NUMBER,) * 3),
    re.DOTALL,
)
_SHORT = 0x40

TopicFields: TypeAlias = tuple[bytes, bytes, bytes, int, int, bytes, bytes]
"""Topic, author, creation time, the author's numbers, publisher and payload."""


def _fields_of(block: bytes) -> TopicFields:
    before = _BEFORE.match(block)
    if before is not None:
        topic, author, short, one, two = before.groups()
        length = short[0] - _SHORT if short else int.from_bytes(one or two, "big")
        payload = before.end()
        after = _AFTER.match(block, payload + length)
        if after is not None:
            start, _, number, created, publisher = after.groups()
            content = block[payload : payload + length]
            return topic, author, created, _number(start), _number(number), publisher, content
    fields = cbor2.loads(block)
    told = fields["metadata"]
    return (
        fields["topic"].value[1:],
        fields["author"],
        told["created"].encode(),
        told["start"],
        told["number"],
        fields["publisher"],
        fields["payload"],
    )


def _number(written: bytes) -> int:
    return int.from_bytes(written[1:], "big") if len(written) > 1 else written[0]


def _block(fields: dict[str, Any], predicate: Predicate) -> bytes | None:
    if not fields["created"]:
        return None
    id = EventId(fields["publisher"], fields["start"], fields["number"])
    signed = Publication.of(
        id, predicate, fields["payload"], fields["signature"], fields["created"]
    )
    return event_block(signed)


def _cid_texts(digests: Sequence[bytes]) -> pa.Array:
    """Write content ids in base 32, all at once."""
    count = len(digests)
    cids = np.frombuffer(b"".join(_CID_HEAD + digest for digest in digests), dtype=np.uint8)
    bits = np.unpackbits(cids.reshape(count, -1), axis=1)
    digits = _CID_CHARACTERS - 1
    padded = np.zeros((count, digits * 5), dtype=np.uint8)
    padded[:, : bits.shape[1]] = bits
    written = np.empty((count, _CID_CHARACTERS), dtype=np.uint8)
    written[:, 0] = ord("b")
    written[:, 1:] = _ALPHABET[padded.reshape(count, digits, 5) @ _WEIGHTS]
    offsets = np.arange(count + 1, dtype=np.int32) * _CID_CHARACTERS
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(written.tobytes())]
    return pa.Array.from_buffers(pa.string(), count, buffers)


@lru_cache(maxsize=1 << 12)
def _ids_of(author: bytes, start: int) -> str:
    """What the ids of an author's events begin with."""
    return str(EventId(author, start, 0))[:-1]


def _id(author: bytes, start: int, number: int) -> str:
    return f"{_ids_of(author, start)}{number}"


@lru_cache(maxsize=1 << 12)
def _peer(peer: bytes) -> str:
    return peer_text(peer)


@lru_cache(maxsize=1 << 10)
def _topic(cid: bytes) -> Predicate:
    return Predicate.of({cid_text(cid): True})


def _json(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


@lru_cache(maxsize=1 << 12)
def _topics(predicate: Predicate) -> list[str]:
    return [name for name, interval in predicate.attributes.items() if interval is None]


@lru_cache(maxsize=1 << 12)
def _values(predicate: Predicate) -> dict[str, object]:
    return {
        name: True if interval is None else _value(interval.lo)
        for name, interval in predicate.attributes.items()
        if interval is None or interval.lo == interval.hi
    }


@lru_cache(maxsize=1 << 12)
def _ranges(predicate: Predicate) -> list[dict[str, object]]:
    return [
        {"name": name, "lo": bound_of(interval.lo), "hi": bound_of(interval.hi)}
        for name, interval in predicate.attributes.items()
        if interval is not None
    ]


def _value(number: float | Exact) -> object:
    return number.decimal if isinstance(number, Exact) else number


def bound_of(number: float | Exact) -> float | None:
    """The bound of an interval as a float, None for an open one."""
    value = float(number.decimal) if isinstance(number, Exact) else number
    return None if np.isinf(value) else value
