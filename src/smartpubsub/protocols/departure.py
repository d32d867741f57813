"""How a node tells its peers that it leaves, so that they need not find out by waiting."""

from __future__ import annotations

from typing import NamedTuple

from smartpubsub.kademlia.protobuf import WireError

GOODBYE_BYTES = 8


class Goodbye(NamedTuple):
    """The sender leaves the network; it may come back in a later incarnation."""

    incarnation: int
    """The one that ends."""


def encode(message: Goodbye) -> bytes:
    """The incarnation as eight bytes, the highest first."""
    return message.incarnation.to_bytes(GOODBYE_BYTES, "big")


def decode(data: bytes) -> Goodbye:
    """Read a goodbye; `WireError` if it is none."""
    if len(data) != GOODBYE_BYTES:
        raise WireError(f"a goodbye has {GOODBYE_BYTES} bytes, not {len(data)}")
    return Goodbye(int.from_bytes(data, "big"))


def wire_bytes(_: Goodbye) -> int:
    """How long a goodbye is on the wire."""
    return GOODBYE_BYTES
