"""Names whose keys lie in given buckets.

A lookup carries a name, and the key is the name's hash. To look up a part of the key space, a node
needs a name whose hash lies there, and can find one only by trial.
"""

from __future__ import annotations

from functools import lru_cache

from smartpubsub.kademlia.keys import KEY_BITS, Key, key_of
from smartpubsub.kademlia.table import RoutingTable

PREFIX_BITS_MAX = 14
_VARIETY_BITS = 8
"""All nodes together use this many names (as a power of two) for their buckets of one index."""

# Without the cache of `key_of`: names that are tried once would evict useful entries.
_hashed = key_of.__wrapped__


def names_in_far_buckets(own: Key, table: RoutingTable) -> list[bytes]:
    """A name in every bucket that may lack peers after the node has looked up itself.

    That lookup has found the k closest peers, and so all peers in the nearer buckets.
    """
    neighbours = table.closest(own, table.k)
    if not neighbours:
        return []
    far = range(table.index(neighbours[-1].key), KEY_BITS + 1)
    names = (name_in_bucket(own, index) for index in far)
    return [name for name in names if name is not None]


def name_in_bucket(own: Key, index: int) -> bytes | None:
    """A name whose key lies in a bucket of the node; None if the bucket is too narrow to find one.

    >>> own = key_of(b"node")
    >>> name = name_in_bucket(own, 254)
    >>> (key_of(name) ^ own).bit_length()
    254
    """
    bits = KEY_BITS - index + 1
    if bits > PREFIX_BITS_MAX:
        return None
    # The keys of a bucket share all bits with the node before the bit in which they differ.
    prefix = (own >> (index - 1)) ^ 1
    # If all nodes looked up the same name, all would know the same few peers.
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
