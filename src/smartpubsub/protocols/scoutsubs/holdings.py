"""How much each peer has a node keep of its filters, in all trees together."""

from __future__ import annotations

from smartpubsub.seam import Peer


class Holdings:
    """Filters by peer, and the trees that they are in. Of peers without filters nothing is kept."""

    def __init__(self) -> None:
        self._filters: dict[Peer, int] = {}
        self._trees: dict[Peer, int] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def filters_of(self, peer: Peer) -> int:
        """How many filters are kept for a peer."""
        return self._filters.get(peer, 0)

    def trees_of(self, peer: Peer) -> int:
        """In how many trees."""
        return self._trees.get(peer, 0)

    def change(self, peer: Peer, before: int, after: int) -> None:
        """A peer has another number of filters in one of the trees."""
        _add(self._filters, peer, after - before)
        _add(self._trees, peer, (after > 0) - (before > 0))


def _add(counts: dict[Peer, int], peer: Peer, difference: int) -> None:
    count = counts.get(peer, 0) + difference
    if count:
        counts[peer] = count
    else:
        counts.pop(peer, None)
