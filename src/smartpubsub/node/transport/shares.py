"""The processor time that each peer costs, and how long a peer waits that costs too much.

Times are those of a `ProcessorClock`: a share is a part of what the node has of a busy machine.
"""

from __future__ import annotations

from collections import OrderedDict

from smartpubsub.seam import Peer

SLICE_S = 0.005
"""A message that takes longer blocks all others meanwhile; what is beyond counts several times."""
BLOCKING_FACTOR = 10


class Shares:
    """A token bucket of processor seconds for each peer."""

    def __init__(self, share: float, burst_s: float, peer_count_max: int) -> None:
        self._share = share
        self._burst_s = burst_s
        self._peer_count_max = peer_count_max
        self._left: OrderedDict[Peer, tuple[float, float]] = OrderedDict()
        """The seconds that are left to a peer, at a time; the latest last."""

    def charge(self, peer: Peer, cost_s: float, now: float) -> None:
        """Count the processor time of one message."""
        cost_s += BLOCKING_FACTOR * max(0.0, cost_s - SLICE_S)
        self._left[peer] = self._left_to(peer, now) - cost_s, now
        self._left.move_to_end(peer)
        if len(self._left) > self._peer_count_max:
            self._left.popitem(last=False)

    def delay_s(self, peer: Peer, now: float) -> float:
        """How long a peer has to wait until it has had no more than its share."""
        return max(0.0, -self._left_to(peer, now) / self._share)

    def _left_to(self, peer: Peer, now: float) -> float:
        left_s, at = self._left.get(peer, (self._burst_s, now))
        return min(self._burst_s, left_s + (now - at) * self._share)
