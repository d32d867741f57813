"""Blocks of events, as nodes store them, as columns.

A column is made when a schema has it. Content ids are computed from the blocks, so a row's
`cid` is verified by being there.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, TypeAlias

import cbor2
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from smartpubsub.node.control.pages import split
from smartpubsub.node.identity import peer_text
from smartpubsub.pipeline.byte_slices import slices
from smartpubsub.pipeline.datasource.topic_blocks import Blocks, fields_of
from smartpubsub.predicates import Interval, Predicate
from smartpubsub.predicates.numbers import Exact
from smartpubsub.protocols.blocks import cid_of, cid_text
from smartpubsub.protocols.event_blocks import event_block
from smartpubsub.protocols.publication import EventId, Publication

_ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", dtype=np.uint8)
_SHIFTS = np.arange(35, -1, -5, dtype=np.uint64)
_CID_HEAD = cid_of(b"")[:4]
_FILLER = bytes(-len(cid_of(b"")) % 5)
_FIVES = -(-len(cid_of(b"")) // 5)
_CID_CHARACTERS = len(cid_text(cid_of(b"")))
_TIME = pa.timestamp("us", tz="UTC")
_RANGE = pa.struct({"name": pa.string(), "lo": pa.float64(), "hi": pa.float64()})

Column: TypeAlias = pa.Array | Sequence[Any]
"""The values of a column."""


class Events(ABC):
    """Events of any kind, each column in the order of the blocks."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def blocks(self) -> Column:
        """The blocks that content ids name; None if an event has none."""

    @property
    @abstractmethod
    def event_ids(self) -> Column:
        """The ids that authors gave to their events."""

    @property
    @abstractmethod
    def cids(self) -> Column:
        """Content ids."""

    @property
    @abstractmethod
    def times(self) -> pa.Array:
        """When they were published."""

    @property
    @abstractmethod
    def publishers(self) -> Column:
        """The peers that published them."""

    @property
    @abstractmethod
    def payloads(self) -> Column:
        """The payloads."""

    @property
    @abstractmethod
    def predicates(self) -> Column:
        """Their attributes as they are written."""

    @property
    @abstractmethod
    def topics(self) -> Column:
        """The attributes without numbers."""

    @property
    @abstractmethod
    def ranges(self) -> Column:
        """The attributes with numbers; an open bound is None."""

    @property
    @abstractmethod
    def values(self) -> list[dict[str, object]]:
        """The attributes of each event: a number, True for a topic, None for an interval."""

    @cached_property
    def json_payloads(self) -> list[Any]:
        """The payloads read as JSON, None where they are something else."""
        return [*map(_json, _listed(self.payloads))]

    @property
    def text_payloads(self) -> list[str | None]:
        """The payloads as texts, None where they are no UTF-8."""
        return [*map(_text, _listed(self.payloads))]


class TopicEvents(Events):
    """Events of topics: their blocks are what nodes exchange."""

    def __init__(self, page: bytes) -> None:
        self._blocks = Blocks.of_page(page)
        self._fields = fields_of(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def event_ids(self) -> pa.Array:
        authors = self._texts("author", lambda peer: str(EventId(peer, 0, 0)).split("-")[0])
        numbers = (self._column(name).cast(pa.string()) for name in ("start", "number"))
        return pc.binary_join_element_wise(authors, *numbers, "-")

    @property
    def blocks(self) -> pa.Array:
        return slices(*self._blocks)

    @property
    def cids(self) -> pa.Array:
        return _cid_texts([sha256(block).digest() for block in self._blocks.views])

    @property
    def times(self) -> pa.Array:
        return self._column("created").cast(pa.string()).cast(_TIME)

    @property
    def publishers(self) -> pa.Array:
        return self._texts("publisher", peer_text)

    @property
    def payloads(self) -> pa.Array:
        return self._column("payload")

    @property
    def predicates(self) -> pa.Array:
        return self._texts("topic", lambda cid: str(Predicate.of({cid_text(cid): True})))

    @property
    def topics(self) -> pa.Array:
        offsets = pa.array(np.arange(len(self) + 1, dtype=np.int32))
        return pa.ListArray.from_arrays(offsets, self._texts("topic", cid_text))

    @property
    def ranges(self) -> pa.Array:
        offsets = pa.array(np.zeros(len(self) + 1, dtype=np.int32))
        return pa.ListArray.from_arrays(offsets, pa.array([], _RANGE))

    @property
    def values(self) -> list[dict[str, object]]:
        return [{topic: True} for topic in self._texts("topic", cid_text).to_pylist()]

    def _column(self, name: str) -> pa.Array:
        return self._fields.column(name).combine_chunks()

    def _texts(self, name: str, written: Callable[[bytes], str]) -> pa.Array:
        """A column in another notation; few of its values differ."""
        column = self._column(name).dictionary_encode()
        texts = pa.array([*map(written, column.dictionary.to_pylist())], pa.string())
        return texts.take(column.indices)


class StoredEvents(Events):
    """Events as a node stores those that match a subscription."""

    def __init__(self, page: bytes) -> None:
        self._decoded: list[dict[str, Any]] = [*map(cbor2.loads, split(page))]

    def __len__(self) -> int:
        return len(self._decoded)

    @property
    def event_ids(self) -> list[str]:
        return [_id(each["publisher"], each["start"], each["number"]) for each in self._decoded]

    @cached_property
    def blocks(self) -> list[bytes | None]:
        return [*map(_block, self._decoded, self._parsed)]

    @property
    def cids(self) -> pa.Array:
        texts = (None if block is None else cid_text(cid_of(block)) for block in self.blocks)
        return pa.array([*texts], pa.string())

    @property
    def times(self) -> pa.Array:
        return pa.array([fields["created"] or None for fields in self._decoded], _TIME)

    @property
    def publishers(self) -> list[str]:
        return [_peer(fields["publisher"]) for fields in self._decoded]

    @property
    def payloads(self) -> list[bytes]:
        return [fields["payload"] for fields in self._decoded]

    @property
    def predicates(self) -> list[str]:
        return [*map(str, self._parsed)]

    @property
    def topics(self) -> list[list[str]]:
        return [_topics(fields["predicate"]) for fields in self._decoded]

    @property
    def ranges(self) -> list[list[dict[str, object]]]:
        return [_ranges(fields["predicate"]) for fields in self._decoded]

    @property
    def values(self) -> list[dict[str, object]]:
        return [_values(fields["predicate"]) for fields in self._decoded]

    @cached_property
    def _parsed(self) -> list[Predicate]:
        return [_predicate(fields["predicate"]) for fields in self._decoded]


def _listed(column: Column) -> Sequence[Any]:
    return column.to_pylist() if isinstance(column, pa.Array) else column


def _block(fields: dict[str, Any], predicate: Predicate) -> bytes | None:
    if not fields["created"]:
        return None
    id = EventId(fields["publisher"], fields["start"], fields["number"])
    signed = Publication.of(
        id, predicate, fields["payload"], fields["signature"], fields["created"]
    )
    return event_block(signed)


def _cid_texts(digests: Sequence[bytes]) -> pa.Array:
    """Write content ids in base 32, all at once: eight digits for each five bytes."""
    count = len(digests)
    filled = b"".join(_CID_HEAD + digest + _FILLER for digest in digests)
    fives = np.zeros((count * _FIVES, 8), dtype=np.uint8)
    fives[:, 3:] = np.frombuffer(filled, dtype=np.uint8).reshape(-1, 5)
    digits = (fives.view(">u8") >> _SHIFTS).astype(np.uint8) & 31
    written = np.empty((count, _CID_CHARACTERS), dtype=np.uint8)
    written[:, 0] = ord("b")
    written[:, 1:] = _ALPHABET[digits].reshape(count, _FIVES * 8)[:, : _CID_CHARACTERS - 1]
    offsets = np.arange(count + 1, dtype=np.int32) * _CID_CHARACTERS
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(written)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


@lru_cache(maxsize=1 << 12)
def _ids_of(author: bytes, start: int) -> str:
    """The prefix of the ids of an author's events."""
    return str(EventId(author, start, 0))[:-1]


def _id(author: bytes, start: int, number: int) -> str:
    return f"{_ids_of(author, start)}{number}"


@lru_cache(maxsize=1 << 12)
def _peer(peer: bytes) -> str:
    return peer_text(peer)


@lru_cache(maxsize=1 << 12)
def _predicate(text: str) -> Predicate:
    return Predicate.parse(text, attributes_max=len(text))


def _text(payload: bytes) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None


def _refuse(constant: str) -> None:
    """Refuse NaN, which is no JSON, and which Spark and Arrow compare differently."""
    raise ValueError(constant)


def _json(payload: bytes) -> Any:
    try:
        return json.loads(payload, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


# These remember texts and not predicates: equal predicates can have their attributes in another
# order, and a row must be the same whatever was read before it.


@lru_cache(maxsize=1 << 12)
def _topics(text: str) -> list[str]:
    attributes = _predicate(text).attributes
    return [name for name, interval in attributes.items() if interval is None]


@lru_cache(maxsize=1 << 12)
def _values(text: str) -> dict[str, object]:
    return {name: _value(interval) for name, interval in _predicate(text).attributes.items()}


@lru_cache(maxsize=1 << 12)
def _ranges(text: str) -> list[dict[str, object]]:
    return [
        {"name": name, "lo": bound_of(interval.lo), "hi": bound_of(interval.hi)}
        for name, interval in _predicate(text).attributes.items()
        if interval is not None
    ]


def _value(interval: Interval | None) -> object:
    if interval is None:
        return True
    if interval.lo != interval.hi:
        return None
    return interval.lo.decimal if isinstance(interval.lo, Exact) else interval.lo


def bound_of(number: float | Exact) -> float | None:
    """The bound of an interval as a float, None for an open one."""
    value = float(number.decimal) if isinstance(number, Exact) else number
    return None if np.isinf(value) else value
