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

Cid: TypeAlias = bytes
"""A content id."""

# Version 1, dag-cbor, SHA-256, and that it has 32 bytes.
_HEAD = b"\x01\x71\x12\x20"
CID_BYTES = len(_HEAD) + hashlib.sha256().digest_size

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


def decode(block: bytes) -> Any:
    """The value of a block, which has only one way to be written."""
    try:
        return dag_cbor.decode(block)
    except (decoding.err.CBORDecodingError, RecursionError, ValueError) as error:
        problem = str(error).partition("\n")[0] or type(error).__name__
        raise BlockError(f"no dag-cbor: {problem}") from None


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
    """What the decoder makes links with, for which the library takes a quarter of a millisecond."""

    @staticmethod
    def decode(cid: bytes) -> CID:
        return link(cid) if is_cid(cid) else CID.decode(cid)


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
        read = datetime.fromisoformat(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        read = None
    if read is None or read.tzinfo is None:
        raise BlockError("a time that is not ISO 8601 with a zone")
    return (read - _EPOCH) // _MICROSECOND
