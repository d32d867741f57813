"""Which peers name so many unreachable peers that a node no longer uses the peers they name.

A peer can name thousands of invented peers at the address of another machine, so that all nodes
that ask it connect to that machine. So each dial that fails counts against the peers that have
named the address, in equal parts. While a peer has used up its share of failures, the node removes
the peers that it names from its answers, and dials no address that only such peers have named.
Honest peers use up little of theirs: they name few peers that are gone, several of them name the
same peer, and a node that could not reach a peer dials it again only after a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.seam import Peer

FAILURES_MAX = 60
"""How many failed dials at once a peer may cause, and by how many more it can overdraw them: many
dials are under way when the first ones fail."""
FAILURES_PER_S = 0.5
"""How many failed dials it may cause in the long run."""


class Hearsay:
    """The failed dials that each peer may still cause."""

    def __init__(self, peer_count_max: int) -> None:
        self._left: BoundedDict[Peer, tuple[float, float]] = BoundedDict(peer_count_max)
        """How many are left, and when that was computed."""

    def __len__(self) -> int:
        return len(self._left)

    def is_heeded(self, source: Peer, now: float) -> bool:
        """Whether a node uses the peers that a peer names."""
        return self._left_of(source, now) >= 1

    def on_failure(self, sources: Sequence[Peer], now: float) -> None:
        """Count a failed dial to an address that these peers have named.

        Hostile peers may refuse this node alone, to discredit the honest peers that can reach and
        name them. With equal parts, that takes many failures for each of these honest peers. Liars
        that name the same address gain nothing.
        """
        for source in sources:
            left = self._left_of(source, now) - 1 / len(sources)
            self._left[source] = max(left, -FAILURES_MAX), now

    def _left_of(self, source: Peer, now: float) -> float:
        left, at = self._left.get(source, (FAILURES_MAX, now))
        return min(FAILURES_MAX, left + (now - at) * FAILURES_PER_S)
