"""Blocks: dag-cbor, named by a content id, which is CIDv1 with SHA-256.

Inside the project a content id is its 36 bytes; people see it in base 32.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeAlias

import dag_cbor
from dag_cbor import decoding
from multiformats import CID

from smartpubsub.errors import SmartPubSubError
from smartpubsub.protocols.publication import TIME_END_US

Cid: TypeAlias = bytes
"""A content id."""

# Version 1, dag-cbor, SHA-256, and that it has 32 bytes.
_HEAD = b"\x01\x71\x12\x20"
CID_BYTES = len(_HEAD) + hashlib.sha256().digest_size

DEPTH_MAX = 32
ITEM_COUNT_MAX = 1 << 14
"""How many values a block may have, each entry of a list or map counted."""
_ENDS = 0xFF
"""Stands for the first byte of a value that is not there."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class BlockError(SmartPubSubError):
    """Bytes that are no block, or something in a block that is not what it should be."""


class CidError(SmartPubSubError):
    """A text that is no content id of a block."""


def encode(value: Any) -> bytes:
    """A value as a block.

    >>> encode({"b": 1, "a": [True, None]}).hex()
    'a2616182f5f6616201'
    """
    encoded = dag_cbor.encode(value)
    assert isinstance(encoded, bytes)
    return encoded


def decode(block: bytes, item_count_max: int = ITEM_COUNT_MAX) -> Any:
    """The value of a block, which has only one way to be written."""
    _check_shape(block, item_count_max)
    try:
        return dag_cbor.decode(block)
    except Exception as error:  # The library lets errors of all that it uses pass.
        problem = str(error).partition("\n")[0] or type(error).__name__
        raise BlockError(f"no dag-cbor: {problem}") from None


def _check_shape(block: bytes, item_count_max: int) -> None:
    """Refuse what is too deep, has too many items, or announces more than there is.

    The library allocates what a length announces, and its time grows with the square of the depth.
    """
    at, end, items = 0, len(block), 0
    open_items = [1]
    """How many items each list, map and tag that is not complete still has."""
    while open_items:
        if not open_items[-1]:
            open_items.pop()
            continue
        open_items[-1] -= 1
        items += 1
        major, count = divmod(block[at] if at < end else _ENDS, 32)
        at += 1
        if count >= 24:
            size = 1 << count - 24
            count = int.from_bytes(block[at : at + size], "big") if size <= 8 else end
            at += size
        if major in (2, 3):
            at += count
        elif major in (4, 5, 6):
            open_items.append({4: count, 5: 2 * count, 6: 1}[major])
        if at > end or open_items[-1] > end - at:
            raise BlockError("no dag-cbor: it ends within a value")
        if items > item_count_max or len(open_items) > DEPTH_MAX + 1:
            raise BlockError(f"deeper than {DEPTH_MAX}, or more than {item_count_max} items")


def cid_of(block: bytes) -> Cid:
    """The name of a block.

    >>> cid_text(cid_of(encode({})))
    'bafyreigbtj4x7ip5legnfznufuopl4sg4knzc2cof6duas4b3q2fy6swua'
    """
    return _HEAD + hashlib.sha256(block).digest()


_SAMPLE = CID("base32", 1, "dag-cbor", _HEAD[2:] + bytes(CID_BYTES - len(_HEAD)))


@lru_cache(maxsize=1 << 14)
def link(cid: Cid) -> CID:
    """A content id as a link in a block."""
    if not is_cid(cid):
        raise CidError("bytes that are no content id of a block")
    # The constructor looks up and checks again what all of them have in common, which takes as
    # long as all else that it takes to write an event.
    like = _SAMPLE
    return CID._new_instance(CID, like.base, like.version, like.codec, like.hashfun, cid[2:])


class _Links:
    """What the decoder makes links with, for which the library takes a quarter of a millisecond.

    No block that this project reads has links of other sorts.
    """

    @staticmethod
    def decode(cid: bytes) -> CID:
        return link(cid)


decoding.CID = _Links  # type: ignore[attr-defined,assignment]


def cid_of_link(value: object) -> Cid:
    """What a link in a block points to."""
    cid = bytes(value) if isinstance(value, CID) else b""
    if not is_cid(cid):
        raise BlockError("something that is no link to a block of dag-cbor")
    return cid


def is_cid(cid: bytes) -> bool:
    """Whether bytes are a content id of the one sort that is used here."""
    return len(cid) == CID_BYTES and cid.startswith(_HEAD)


@lru_cache(maxsize=1 << 12)
def cid_text(cid: Cid) -> str:
    """A content id as people see it, in multibase's base 32.

    The library of multiformats writes the same and takes forty times as long.
    """
    return "b" + base64.b32encode(cid).decode().rstrip("=").lower()


@lru_cache(maxsize=1 << 12)
def cid_from_text(text: str) -> Cid:
    """The content id that a text means, in any of the usual bases."""
    try:
        cid = bytes(CID.decode(text))
    except Exception:  # Of any of the libraries below.
        cid = b""
    if not is_cid(cid):
        raise CidError(f"{text!r} is no content id of a topic or an event; they begin with bafyrei")
    return cid


def time_text(at_us: int) -> str:
    """A time as descriptors have it, ISO 8601.

    >>> time_text(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    return (_EPOCH + at_us * _MICROSECOND).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def time_from_text(text: object) -> int:
    """The microseconds that a descriptor's time means.

    >>> time_from_text("1970-01-01T00:00:01.5+00:00")
    1500000
    """
    try:
        at_us = (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise BlockError("a time that is not ISO 8601 with a zone") from None
    if not 0 <= at_us < TIME_END_US:
        raise BlockError("a time that no clock shows")
    return at_us
