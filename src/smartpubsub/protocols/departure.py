"""The goodbye by which a node tells its peers that it leaves, so that they need not probe it."""

from __future__ import annotations

from typing import NamedTuple

from smartpubsub.kademlia.protobuf import WireError, framed, unframed

GOODBYE_BYTES = 8


class Goodbye(NamedTuple):
    """The sender leaves the network; it may come back in a later incarnation."""

    incarnation: int
    """The one that ends."""


def encode(message: Goodbye) -> bytes:
    """The incarnation as eight bytes, the highest first, with their length before them.

    >>> encode(Goodbye(7)).hex(" ")
    '08 00 00 00 00 00 00 00 07'
    """
    return framed(message.incarnation.to_bytes(GOODBYE_BYTES, "big"))


def decode(data: bytes) -> Goodbye:
    """Read a goodbye with its length before it; `WireError` if it is none."""
    body = unframed(data, GOODBYE_BYTES)
    if len(body) != GOODBYE_BYTES:
        raise WireError(f"a goodbye has {GOODBYE_BYTES} bytes, not {len(body)}")
    return Goodbye(int.from_bytes(body, "big"))


def wire_bytes(_: Goodbye) -> int:
    """The length of a goodbye on the wire, with the byte before it that frames it."""
    return 1 + GOODBYE_BYTES
