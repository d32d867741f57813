"""The 256-bit key space of nodes and names; distance is the XOR of two keys."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import NamedTuple, TypeAlias

KEY_BITS = 256

Key: TypeAlias = int
"""A point of the space: an integer, for which XOR and order are defined."""


@lru_cache(maxsize=1 << 16)
def key_of(name: bytes) -> Key:
    """The key of a peer id or of any other name: its SHA-256, as in libp2p.

    >>> hex(key_of(b"surf"))[:9]
    '0x1993117'
    """
    return int.from_bytes(hashlib.sha256(name).digest(), "big")


class Contact(NamedTuple):
    """A peer: its id, key and addresses, and its length on the wire."""

    peer: bytes
    key: Key
    addresses: tuple[bytes, ...]
    wire_bytes: int

    @staticmethod
    def of(peer: bytes, addresses: tuple[bytes, ...] = ()) -> Contact:
        """The contact of a peer id; cached, so equal arguments share one object."""
        return _contact_of(peer, addresses)


@lru_cache(maxsize=1 << 16)
def _contact_of(peer: bytes, addresses: tuple[bytes, ...]) -> Contact:
    size = field_bytes(len(peer)) + sum(field_bytes(len(address)) for address in addresses)
    return Contact(peer, key_of(peer), addresses, field_bytes(size))


def field_bytes(length: int) -> int:
    """The length of a protobuf field: one byte of tag, the length, the content."""
    return 1 + varint_bytes(length) + length


def varint_bytes(number: int) -> int:
    """The length of a protobuf varint: seven bits per byte."""
    return 1 if number < 128 else (number.bit_length() + 6) // 7
