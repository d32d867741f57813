"""Proof of work in a peer id.

A node's place in the overlay follows from its peer id, and ids cost nothing: an attacker that makes
enough of them has some that lie closer to a name than all other nodes. In a network that requires
work, only one id in 2 to the power of `bits` may be in routing tables and results of lookups, so an
attacker has to generate that many keys for each id. The proof is the id itself: no message carries
it, and verifying it takes one hash.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

from smartpubsub.seam import Peer

BITS_MAX = 24
"""With this many bits, finding an id takes a quarter of an hour of processor time."""
_PURPOSE = b"smartpubsub-id-work:"


@lru_cache(maxsize=1 << 12)
def has_work(peer: Peer, bits: int) -> bool:
    """Whether the hash of a peer id begins with so many bits of zero."""
    return not bits or int.from_bytes(sha256(_PURPOSE + peer).digest(), "big") >> (256 - bits) == 0
