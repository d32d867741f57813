"""Names that lie where a lookup is wanted.

A lookup carries a name, and what counts is the name's hash. To look up a part of the key space one
needs a name whose hash falls there, and such names can only be found by trying.
"""

from __future__ import annotations

from functools import lru_cache

from smartpubsub.kademlia.keys import KEY_BITS, Key, key_of
from smartpubsub.kademlia.table import RoutingTable

PREFIX_BITS_MAX = 14
# How many names there are for all buckets of one index together.
_VARIETY_BITS = 8

# Names that are tried once would drive everybody else's out of the memory of `key_of`.
_hashed = key_of.__wrapped__


def names_in_far_buckets(own: Key, table: RoutingTable) -> list[bytes]:
    """A name in every bucket of a node that may lack peers when the node has looked up itself.

    That has found the k closest, and so everybody in the buckets before the last of them.
    """
    neighbours = table.closest(own, table.k)
    if not neighbours:
        return []
    far = range(table.index(neighbours[-1].key), KEY_BITS + 1)
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
    prefix = (own >> (index - 1)) ^ 1
    # If all nodes looked up the same name, all would know the same few of many peers.
    variety = 1 << max(0, _VARIETY_BITS - bits)
    return _name_with_prefix(prefix, bits, own % variety)


@lru_cache(maxsize=1 << PREFIX_BITS_MAX)
def _name_with_prefix(prefix: int, bits: int, number: int) -> bytes:
    attempt = 0
    while True:
        name = b"refresh/%d/%d/%d/%d" % (bits, prefix, number, attempt)
        if _hashed(name) >> (KEY_BITS - bits) == prefix:
            return name
        attempt += 1
