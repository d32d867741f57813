"""Blocks: dag-cbor, named by a content id, which is CIDv1 with SHA-256.

Inside the project a content id is its 36 bytes; people see it in base 32.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeAlias

from multiformats import CID

from smartpubsub.errors import SmartPubSubError
from smartpubsub.native import native
from smartpubsub.protocols import dagcbor
from smartpubsub.protocols.dagcbor import ITEM_COUNT_MAX, EncodingError, Link
from smartpubsub.protocols.publication import TIME_END_US

Cid: TypeAlias = bytes
"""A content id."""

# Version 1, dag-cbor, SHA-256, and the digest's length of 32 bytes.
_HEAD = b"\x01\x71\x12\x20"
CID_BYTES = len(_HEAD) + hashlib.sha256().digest_size

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY_US = timedelta(days=1) // _MICROSECOND


class BlockError(SmartPubSubError):
    """Bytes that are no block, or a block with an invalid field."""


class CidError(SmartPubSubError):
    """A text that is no content id of a block."""


def encode(value: Any) -> bytes:
    """A value as a block.

    >>> encode({"b": 1, "a": [True, None]}).hex()
    'a2616182f5f6616201'
    """
    return dagcbor.encode(value)


def decode(block: bytes, item_count_max: int = ITEM_COUNT_MAX) -> Any:
    """The value of a block; any encoding of it but the canonical one is an error."""
    try:
        return dagcbor.decode(block, item_count_max)
    except EncodingError as error:
        raise BlockError(f"no dag-cbor: {error}") from None


def cid_of(block: bytes) -> Cid:
    """The name of a block.

    >>> cid_text(cid_of(encode({})))
    'bafyreigbtj4x7ip5legnfznufuopl4sg4knzc2cof6duas4b3q2fy6swua'
    """
    return _HEAD + hashlib.sha256(block).digest()


def link(cid: Cid) -> Link:
    """A content id as a link in a block."""
    if not is_cid(cid):
        raise CidError("bytes that are no content id of a block")
    return Link(cid)


def cid_of_link(value: object) -> Cid:
    """The content id that a link in a block points to."""
    if type(value) is not Link or not is_cid(value.cid):
        raise BlockError("something that is no link to a block of dag-cbor")
    return value.cid


def is_cid(cid: bytes) -> bool:
    """Whether bytes are a content id of the one kind that this project uses."""
    return len(cid) == CID_BYTES and cid.startswith(_HEAD)


@lru_cache(maxsize=1 << 12)
def cid_text(cid: Cid) -> str:
    """A content id as people see it, in multibase's base 32.

    The library multiformats gives the same text and takes forty times as long.
    """
    return "b" + _base32(cid)


def base32_in_python(data: bytes) -> str:
    """Write bytes in lower case of base 32, without padding."""
    return base64.b32encode(data).decode().rstrip("=").lower()


_base32 = base32_in_python if native is None else native.base32


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
    """A time in ISO 8601, as descriptors contain it.

    >>> time_text(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    days, rest_us = divmod(at_us, _DAY_US)
    seconds, us = divmod(rest_us, 1_000_000)
    minutes, second = divmod(seconds, 60)
    return f"{_date_text(days)}T{minutes // 60:02}:{minutes % 60:02}:{second:02}.{us:06}Z"


@lru_cache(maxsize=1 << 6)
def _date_text(days: int) -> str:
    return (_EPOCH + timedelta(days=days)).strftime("%Y-%m-%d")


def time_from_text(text: object) -> int:
    """The microseconds that a descriptor's time means.

    >>> time_from_text("1970-01-01T00:00:01.5+00:00")
    1500000
    """
    try:
        at_us = (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise BlockError("a time that is not ISO 8601 with a zone") from None
    if not -TIME_END_US < at_us < TIME_END_US:
        raise BlockError("a time that no clock shows")
    return at_us
