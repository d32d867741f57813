"""dag-cbor: a canonical encoding, which has exactly one form for each value.

The library dag-cbor validates the types of all values again and again, which was half of the cost
of a Pulsarcast event. Tests compare this module with it.

Where the native module is installed, it encodes and decodes. Values and bytes that it refuses are
left to the Python here, which says what is wrong with them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from types import NoneType
from typing import Any, NamedTuple

from smartpubsub.native import native

DEPTH_MAX = 32
ITEM_COUNT_MAX = 1 << 14
"""How many values may be decoded, each entry of a list or map counted."""

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _LIST, _MAP, _TAG, _OTHER = range(8)
_LINK_TAG = 42
_LINK_HEAD = b"\xd8\x2a"
_SIMPLE = {20: False, 21: True, 22: None}
_WRITTEN_SIMPLE = {value: bytes([_OTHER << 5 | code]) for code, value in _SIMPLE.items()}
_FLOAT = 27
_DOUBLE = struct.Struct(">d")
_SIZES = {24: 1, 25: 2, 26: 4, 27: 8}
_HEADS = [
    [bytes([major << 5 | n] if n < 24 else [major << 5 | 24, n]) for n in range(256)]
    for major in range(7)
]
"""The first bytes of a value, by its major type and its number if that is below 256."""


class Link(NamedTuple):
    """A link to a block, by its content id."""

    cid: bytes


class EncodingError(ValueError):
    """Bytes that are not dag-cbor, or a value that dag-cbor cannot express."""


def encode(value: Any) -> bytes:
    """A value as dag-cbor.

    >>> encode({"b": 1, "a": [True, None]}).hex()
    'a2616182f5f6616201'
    """
    if native is None:
        return encode_in_python(value)
    try:
        encoded: bytes = native.encode_cbor(value, Link)
    except ValueError:
        return encode_in_python(value)
    return encoded


def decode(data: bytes, item_count_max: int = ITEM_COUNT_MAX) -> Any:
    """The value of bytes, if they are the canonical encoding that `encode` makes."""
    if native is None:
        return decode_in_python(data, item_count_max)
    try:
        return native.decode_cbor(data, Link, DEPTH_MAX, item_count_max)
    except ValueError:
        return decode_in_python(data, item_count_max)


# --- encoding ---


def encode_in_python(value: Any) -> bytes:
    """As `encode`, without the native module."""
    parts: list[bytes] = []
    _write(value, parts)
    return b"".join(parts)


def _write(value: Any, parts: list[bytes]) -> None:
    write = _WRITES.get(type(value))
    if write is None:
        raise EncodingError(f"a {type(value).__name__} has no form in dag-cbor")
    write(value, parts)


def _write_bytes(value: bytes, parts: list[bytes]) -> None:
    parts += _head(_BYTES, len(value)), value


def _write_number(value: int, parts: list[bytes]) -> None:
    parts.append(_head(_UNSIGNED, value) if value >= 0 else _head(_NEGATIVE, -1 - value))


def _write_link(value: Link, parts: list[bytes]) -> None:
    parts += _LINK_HEAD, _head(_BYTES, 1 + len(value.cid)), b"\0", value.cid


def _write_map(value: dict[str, Any], parts: list[bytes]) -> None:
    parts.append(_head(_MAP, len(value)))
    for key, written in _in_order(tuple(value)):
        parts.append(written)
        _write(value[key], parts)


def _write_list(value: Sequence[Any], parts: list[bytes]) -> None:
    parts.append(_head(_LIST, len(value)))
    for each in value:
        _write(each, parts)


def _write_float(value: float, parts: list[bytes]) -> None:
    if not isfinite(value):
        raise EncodingError("a float that is no number has no form in dag-cbor")
    parts += bytes([_OTHER << 5 | _FLOAT]), _DOUBLE.pack(value)


_WRITES: dict[type, Callable[[Any, list[bytes]], None]] = {
    bytes: _write_bytes,
    str: lambda value, parts: parts.append(_text(value)),
    int: _write_number,
    Link: _write_link,
    dict: _write_map,
    list: _write_list,
    tuple: _write_list,
    bool: lambda value, parts: parts.append(_WRITTEN_SIMPLE[value]),
    NoneType: lambda value, parts: parts.append(_WRITTEN_SIMPLE[value]),
    float: _write_float,
}


def _head(major: int, number: int) -> bytes:
    if number < 256:
        return _HEADS[major][number]
    for code, size in _SIZES.items():
        if number < 1 << 8 * size:
            return bytes([major << 5 | code]) + number.to_bytes(size, "big")
    raise EncodingError("a number of more than 64 bits")


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _head(_TEXT, len(encoded)) + encoded


@lru_cache(maxsize=1 << 10)
def _in_order(keys: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """Keys and their encodings, sorted by length, then by their bytes."""
    if not all(type(key) is str for key in keys):
        raise EncodingError("a key that is not a text")
    return sorted(((key, _text(key)) for key in keys), key=lambda item: _order(item[0].encode()))


def _order(encoded: bytes) -> tuple[int, bytes]:
    return len(encoded), encoded


# --- decoding ---


def decode_in_python(data: bytes, item_count_max: int = ITEM_COUNT_MAX) -> Any:
    """As `decode`, without the native module."""
    try:
        value, end = _read(data, 0, _Budget(DEPTH_MAX, item_count_max))
    except (IndexError, UnicodeDecodeError) as error:
        raise EncodingError("it ends within a value, or a text is no UTF-8") from error
    if end != len(data):
        raise EncodingError("more bytes follow the value")
    return value


@dataclass(slots=True, eq=False)
class _Budget:
    """How many more levels and values the decoder accepts."""

    depth: int
    items: int

    def enter(self, count: int, bytes_left: int) -> None:
        """Begin a list, a map or a tag with this many items."""
        self.depth -= 1
        self.items -= count
        if count > bytes_left:
            raise EncodingError("it ends within a value")
        if self.depth < 0 or self.items < 0:
            raise EncodingError("it is nested too deep, or has too many items")


def _read(data: bytes, at: int, budget: _Budget) -> tuple[Any, int]:
    """A value, and the place after it."""
    major, number = data[at] >> 5, data[at] & 31
    at += 1
    if number > 23 and major != _OTHER:
        size = _SIZES.get(number)
        if size is None:
            raise EncodingError("a length that is not given")
        number = int.from_bytes(data[at : at + size], "big")
        at += size
        if at > len(data) or number < (24 if size == 1 else 1 << 4 * size):
            raise EncodingError("a number in more bytes than it needs")
    if major in (_BYTES, _TEXT):  # The most frequent, so without a further call.
        end = at + number
        if end > len(data):
            raise EncodingError("it ends within a value")
        return (data[at:end] if major == _BYTES else data[at:end].decode()), end
    return _READS[major](data, at, number, budget)


def _read_list(data: bytes, at: int, count: int, budget: _Budget) -> tuple[list[Any], int]:
    budget.enter(count, len(data) - at)
    items = []
    for _ in range(count):
        item, at = _read(data, at, budget)
        items.append(item)
    budget.depth += 1
    return items, at


def _read_map(data: bytes, at: int, count: int, budget: _Budget) -> tuple[dict[str, Any], int]:
    budget.enter(2 * count, len(data) - at)
    found: dict[str, Any] = {}
    last = (-1, b"")
    for _ in range(count):
        start = at
        if data[at] >> 5 != _TEXT:
            raise EncodingError("a key that is not a text")
        key, at = _read(data, at, budget)
        # The length comes first in the encoding, so encoded keys have the order of the keys.
        order = (at - start, data[start:at])
        if order <= last:
            raise EncodingError("keys that are not in order")
        last = order
        found[key], at = _read(data, at, budget)
    budget.depth += 1
    return found, at


def _read_link(data: bytes, at: int, tag: int, budget: _Budget) -> tuple[Link, int]:
    budget.enter(1, len(data) - at)
    content, at = _read(data, at, budget)
    if tag != _LINK_TAG or type(content) is not bytes or content[:1] != b"\0":
        raise EncodingError("a tag that is no link")
    budget.depth += 1
    return Link(content[1:]), at


def _read_other(data: bytes, at: int, code: int, _: _Budget) -> tuple[Any, int]:
    if code in _SIMPLE:
        return _SIMPLE[code], at
    if code != _FLOAT:
        raise EncodingError("a simple value or a float that dag-cbor does not have")
    end = at + _DOUBLE.size
    if end > len(data):
        raise EncodingError("it ends within a value")
    (value,) = _DOUBLE.unpack_from(data, at)
    if not isfinite(value):
        raise EncodingError("a float that is no number")
    return value, end


_READS: dict[int, Callable[[bytes, int, int, _Budget], tuple[Any, int]]] = {
    _UNSIGNED: lambda _, at, number, __: (number, at),
    _NEGATIVE: lambda _, at, number, __: (-1 - number, at),
    _LIST: _read_list,
    _MAP: _read_map,
    _TAG: _read_link,
    _OTHER: _read_other,
}
"""By the major type."""
