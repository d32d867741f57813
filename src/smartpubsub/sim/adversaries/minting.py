"""Peer ids that lie closer to a key than those of all honest nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice

from smartpubsub.kademlia.keys import key_of
from smartpubsub.seam import Peer


def minted(
    names: Iterable[bytes], each: int, honest: Sequence[Peer], peer_of: Callable[[int], Peer]
) -> tuple[int, ...]:
    """So many peer ids for each name, found by trying numbers, as an attacker does."""
    keys = {peer: key_of(peer) for peer in honest}
    return tuple(node for name in names for node in islice(_closer(name, keys, peer_of), each))


def _closer(
    name: bytes, honest: Mapping[Peer, int], peer_of: Callable[[int], Peer]
) -> Iterator[int]:
    key = key_of(name)
    nearest = min(other ^ key for peer, other in honest.items() if peer != name)
    for number in count():
        node = hash_free(name, number)
        if key_of(peer_of(node)) ^ key < nearest:
            yield node


def hash_free(name: bytes, number: int) -> int:
    """A number for each name and try, far above the numbers of honest nodes."""
    return (int.from_bytes(name, "big") << 64) + (1 << 63) + number
