"""Peer ids that lie closer to a key than those of all honest nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice

from smartpubsub.kademlia.keys import key_of
from smartpubsub.seam import Peer
from smartpubsub.sim.kernel.population import peer_id


def minted(names: Iterable[str], each: int, honest: Sequence[Peer], seed: int) -> tuple[Peer, ...]:
    """So many ids for each name, found as an attacker does: by trying."""
    keys = [key_of(peer) for peer in honest]
    return tuple(peer for name in names for peer in islice(_closer(name, keys, seed), each))


def _closer(name: str, honest: Sequence[int], seed: int) -> Iterator[Peer]:
    key = key_of(name.encode())
    nearest = min(other ^ key for other in honest)
    for number in count():
        peer = peer_id(seed, hash_free(name, number))
        if key_of(peer) ^ key < nearest:
            yield peer


def hash_free(name: str, number: int) -> int:
    """A number for each name and try, far above the numbers of honest nodes."""
    return (int.from_bytes(name.encode(), "big") << 64) + (1 << 63) + number
