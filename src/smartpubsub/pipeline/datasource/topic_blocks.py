"""Decodes the fields of many blocks of topics at once.

Nearly all blocks have the same fields of the same lengths, except for payloads, parents and
numbers. So numpy follows the layout of all blocks at the same time, and compares each name on the
way. Blocks with another layout are decoded one by one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cbor2
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from smartpubsub.node.control.pages import NUMBER, NUMBER_BYTES
from smartpubsub.pipeline.byte_slices import Places, slices

_PEER_BYTES = 38
_CID_BYTES = 36
_TIME_BYTES = 27
_VERSION_BYTES = 6
_LINK = b"\xd8\x2aX\x25\x00"
_PARENTS_MAX = 23
"""Longer lists have another head."""
_WINDOW = 8
_PAD = bytes(256)
"""Padding, so that the layout of a truncated block can be followed beyond its end."""

FIELDS = pa.schema(
    {
        "topic": pa.binary(),
        "author": pa.binary(),
        "created": pa.binary(),
        "start": pa.uint64(),
        "number": pa.uint64(),
        "publisher": pa.binary(),
        "payload": pa.binary(),
    }
)


class Blocks(NamedTuple):
    """Blocks in one piece of memory."""

    content: bytes
    starts: Places
    ends: Places

    @classmethod
    def of_page(cls, page: bytes) -> Blocks:
        """The blocks of a page."""
        count = int.from_bytes(page[:NUMBER_BYTES], "big")
        lengths = np.frombuffer(page, NUMBER, count, NUMBER_BYTES).astype(np.int64)
        ends = NUMBER_BYTES * (count + 1) + np.cumsum(lengths)
        return cls(page, ends - lengths, ends)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def views(self) -> list[memoryview]:
        """The blocks without copies of them."""
        view = memoryview(self.content)
        bounds = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [view[start:end] for start, end in bounds]


def fields_of(blocks: Blocks) -> pa.Table:
    """The fields of blocks, which a node has verified before, in their order."""
    usual, is_usual = _Layout(blocks).read()
    if is_usual.all():
        return usual
    odd = np.flatnonzero(~is_usual)
    alone = [_decoded(blocks.content[blocks.starts[n] : blocks.ends[n]]) for n in odd]
    table = pa.concat_tables(
        [usual.filter(pa.array(is_usual)), pa.Table.from_pylist(alone, schema=FIELDS)]
    )
    place = np.empty(len(blocks), np.int64)
    place[np.concatenate([np.flatnonzero(is_usual), odd])] = np.arange(len(blocks))
    return table.take(pa.array(place))


class _Layout:
    """Follows the usual layout of all blocks, and records which ones differ."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        padded = blocks.content + _PAD
        self._end = len(blocks.content)
        self._bytes = np.frombuffer(padded, np.uint8)
        windows = (len(padded) - _WINDOW,)
        # The eight bytes from each place on, as a number.
        self._windows: Any = np.ndarray(windows, ">u8", padded, strides=(1,))
        self._padded = padded
        self._at = blocks.starts
        self._is_usual = np.ones(len(blocks), bool)

    def read(self) -> tuple[pa.Table, npt.NDArray[np.bool_]]:
        self._expect(b"\xa7etopic" + _LINK)
        topics = self._take(_CID_BYTES)
        self._expect(b"fauthorX\x26")
        authors = self._take(_PEER_BYTES)
        self._expect(b"gparents")
        self._skip_parents()
        self._expect(b"gpayload")
        payloads = self._take_payloads()
        self._expect(b"hmetadata\xa5estart")
        starts = self._take_numbers()
        self._expect(b"fheight")
        self._take_numbers()
        self._expect(b"fnumber")
        numbers = self._take_numbers()
        self._expect(b"gcreatedx\x1b")
        created = self._take(_TIME_BYTES)
        self._expect(b"oprotocolVersion")
        self._skip(_VERSION_BYTES)
        self._expect(b"ipublisherX\x26")
        publishers = self._take(_PEER_BYTES)
        self._expect(b"jsignatures")
        self._is_usual &= self._at < self._blocks.ends
        columns = [topics, authors, created, starts, numbers, publishers, payloads]
        return pa.table(columns, schema=FIELDS), self._is_usual

    def _skip(self, lengths: int | Places) -> None:
        # A block that differs may claim any length.
        self._at = np.minimum(self._at + lengths, self._end)

    def _expect(self, name: bytes) -> None:
        self._is_usual &= self._is_at(self._at, name)
        self._skip(len(name))

    def _is_at(self, places: Places, name: bytes) -> npt.NDArray[np.bool_]:
        same = np.ones(len(places), bool)
        for start in range(0, len(name), _WINDOW):
            part = name[start : start + _WINDOW]
            shift = np.uint64(8 * (_WINDOW - len(part)))
            window = self._windows[places + start].astype(np.uint64) >> shift
            same &= window == np.uint64(int.from_bytes(part, "big"))
        return same

    def _take(self, length: int) -> pa.Array:
        shape = (len(self._padded) - length,)
        pieces: Any = np.ndarray(shape, f"V{length}", self._padded, strides=(1,))
        taken = pieces[self._at]
        self._skip(length)
        buffers = [None, pa.py_buffer(taken)]
        return pa.Array.from_buffers(pa.binary(length), len(taken), buffers).cast(pa.binary())

    def _take_payloads(self) -> pa.Array:
        lengths = self._head(0x40)
        starts = self._at
        self._skip(lengths)
        self._is_usual &= self._at < self._blocks.ends
        ends = np.where(self._is_usual, self._at, starts)
        return slices(self._blocks.content, starts, ends)

    def _take_numbers(self) -> pa.Array:
        return pa.array(self._head(0x00).astype(np.uint64))

    def _head(self, kind: int) -> Places:
        """The numbers of CBOR's heads of a kind: up to 23 in one byte, or in the next 1 to 8."""
        first = self._bytes[self._at].astype(np.int64) - kind
        widths = np.select(
            [first == 0x18, first == 0x19, first == 0x1A, first == 0x1B], [1, 2, 4, 8]
        )
        rest = self._windows[self._at + 1].astype(np.uint64)
        shift = np.where(widths > 0, 64 - 8 * widths, 0).astype(np.uint64)
        values = np.where(widths > 0, rest >> shift, first.astype(np.uint64))
        self._is_usual &= (first >= 0) & (first <= 0x1B) & (values < 1 << 63)
        self._skip(1 + widths)
        return np.where(self._is_usual, values, 0).astype(np.int64)

    def _skip_parents(self) -> None:
        counts = self._bytes[self._at].astype(np.int64) - 0x80
        self._is_usual &= (counts >= 0) & (counts <= _PARENTS_MAX)
        counts = np.where(self._is_usual, counts, 0)
        self._skip(1)
        for number in range(int(counts.max(initial=0))):
            has_one = counts > number
            self._is_usual &= ~has_one | self._is_at(self._at, _LINK)
            self._skip(np.where(has_one, len(_LINK) + _CID_BYTES, 0))


def _decoded(block: bytes) -> dict[str, object]:
    fields = cbor2.loads(block)
    metadata = fields["metadata"]
    return {
        "topic": fields["topic"].value[1:],
        "author": fields["author"],
        "created": metadata["created"].encode(),
        "start": metadata["start"],
        "number": metadata["number"],
        "publisher": fields["publisher"],
        "payload": fields["payload"],
    }
