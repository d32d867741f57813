"""The identities of a testbed's nodes, determined by the seed."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from smartpubsub.node.identity import Identity
from smartpubsub.seam import Peer


def identity_of(seed: int, node: int) -> Identity:
    """The identity of a node, determined by the seed and its number."""
    return Identity.of(hashlib.sha256(b"testbed/%d/%d" % (seed, node)).digest())


@lru_cache(maxsize=1 << 16)
def peer_of(seed: int, node: int) -> Peer:
    """The peer id of a node."""
    return identity_of(seed, node).peer
