"""The processor time that each peer costs, and how long a peer waits that costs too much.

Times are those of a `ProcessorClock`: a share is a part of what the node has of a busy machine.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from smartpubsub.seam import Peer

SLICE_S = 0.005
"""A message that takes longer blocks all others meanwhile; what is beyond counts several times."""
BLOCKING_FACTOR = 10


class Shares:
    """A token bucket of processor seconds for each peer.

    Peers that have taken more than their share are refilled in turns: many of them together get
    no more than one. Members of the overlay are not: they also send what others have caused.
    """

    def __init__(
        self,
        share: float,
        burst_s: float,
        peer_count_max: int,
        is_member: Callable[[Peer], bool] = lambda _peer: False,
    ) -> None:
        self._share = share
        self._burst_s = burst_s
        self._peer_count_max = peer_count_max
        self._is_member = is_member
        self._left: OrderedDict[Peer, tuple[float, float]] = OrderedDict()
        """The seconds that are left to a peer, at a time; the latest last."""
        self._in_debt: dict[Peer, None] = {}
        """The peers that had taken more than their share when they were last seen."""

    def charge(self, peer: Peer, cost_s: float, now: float, *, blocks: bool = True) -> None:
        """Count the processor time of one message; in a thread it does not block others."""
        if blocks:
            cost_s += BLOCKING_FACTOR * max(0.0, cost_s - SLICE_S)
        left_s = self._left_to(peer, now) - cost_s
        self._left[peer] = left_s, now
        self._left.move_to_end(peer)
        if left_s < 0 and peer not in self._in_debt and not self._is_member(peer):
            self._settle(now)
            self._in_debt[peer] = None
        if len(self._left) > self._peer_count_max:
            forgotten, _ = self._left.popitem(last=False)
            self._in_debt.pop(forgotten, None)

    def delay_s(self, peer: Peer, now: float) -> float:
        """How long a peer has to wait until it has had no more than its share."""
        left_s = self._left_to(peer, now)
        if left_s >= 0:
            if peer in self._in_debt:
                self._settle(now)
            return 0.0
        return -left_s / self._refill(peer)

    def _refill(self, peer: Peer) -> float:
        return self._share / len(self._in_debt) if peer in self._in_debt else self._share

    def _left_to(self, peer: Peer, now: float) -> float:
        left_s, at = self._left.get(peer, (self._burst_s, now))
        return min(self._burst_s, left_s + (now - at) * self._refill(peer))

    def _settle(self, now: float) -> None:
        """Refill all peers in debt, before their number changes; some have made up for it."""
        left_s = {peer: self._left_to(peer, now) for peer in self._in_debt}
        for peer, left in left_s.items():
            self._left[peer] = left, now
            if left >= 0:
                del self._in_debt[peer]
