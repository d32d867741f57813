"""Names that lie where a lookup is wanted.

A lookup carries a name, and what counts is the name's hash. To look up a part of the key space one
needs a name whose hash falls there, and such names can only be found by trying.
"""

from __future__ import annotations

from functools import lru_cache

from smartpubsub.kademlia.keys import KEY_BITS, Key, key_of
from smartpubsub.kademlia.table import RoutingTable

PREFIX_BITS_MAX = 14


def names_in_far_buckets(own: Key, table: RoutingTable) -> list[bytes]:
    """A name in every bucket of a node that lies farther than its closest neighbour."""
    neighbours = table.closest(own, 1)
    if not neighbours:
        return []
    far = range(table.index(neighbours[0].key) + 1, KEY_BITS + 1)
    names = (name_in_bucket(own, index) for index in far)
    return [name for name in names if name is not None]


def name_in_bucket(own: Key, index: int) -> bytes | None:
    """A name whose key lies in one of a node's buckets; None if that is too narrow to find one.

    >>> own = key_of(b"node")
    >>> name = name_in_bucket(own, 254)
    >>> (key_of(name) ^ own).bit_length()
    254
    """
    bits = KEY_BITS - index + 1
    if bits > PREFIX_BITS_MAX:
        return None
    # The bucket shares all bits before the one in which it differs.
    return _name_with_prefix((own >> (index - 1)) ^ 1, bits)


@lru_cache(maxsize=1 << PREFIX_BITS_MAX)
def _name_with_prefix(prefix: int, bits: int) -> bytes:
    attempt = 0
    while True:
        name = b"refresh/%d/%d/%d" % (bits, prefix, attempt)
        if key_of(name) >> (KEY_BITS - bits) == prefix:
            return name
        attempt += 1
