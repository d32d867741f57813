"""Shares of the processor: how much time each peer costs, and how long it waits for that.

Times are those of a `ProcessorClock`: on a busy machine, a share is a part of what the node gets.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from smartpubsub.seam import Peer

SLICE_S = 0.005
"""A longer message blocks all others meanwhile, so the time beyond this counts several times."""
BLOCKING_FACTOR = 10
MEMBER_DEBT_S_MAX = 0.1
"""A penalty brings a member of the overlay no further into debt: it forwards messages that
strangers have caused, and the events of others wait behind them."""
RECENT_S = 1.0
"""How long a stranger counts as active, and how long the check for strangers is valid."""


@dataclass(slots=True)
class _Bucket:
    """The seconds that a peer had left at a time."""

    left_s: float
    at_s: float
    is_stranger: bool = False
    judged_at_s: float = -RECENT_S


class Shares:
    """A token bucket of processor seconds for each peer.

    Strangers, of which there can be many, share one bucket's refill. Members of the overlay have
    one each: they also send messages that other peers have caused.
    """

    def __init__(
        self,
        share: float,
        burst_s: float,
        peer_count_max: int,
        is_member: Callable[[Peer], bool] = lambda _peer: False,
        strangers_share: float | None = None,
    ) -> None:
        self._share = share
        self._strangers_share = share if strangers_share is None else strangers_share
        self._burst_s = burst_s
        self._peer_count_max = peer_count_max
        self._is_member = is_member
        self._buckets: OrderedDict[Peer, _Bucket] = OrderedDict()
        """The latest last."""
        self._strangers: OrderedDict[Peer, float] = OrderedDict()
        """When each stranger of the last second last cost something; the latest last."""

    def charge(
        self,
        peer: Peer,
        cost_s: float,
        now: float,
        *,
        blocks: bool = True,
        elsewhere_s: float = 0.0,
    ) -> None:
        """Count the processor time of one message; in a thread it does not block others.

        A stranger pays for the time that the message costs elsewhere too.
        """
        penalty_s = BLOCKING_FACTOR * max(0.0, cost_s - SLICE_S) if blocks else 0.0
        bucket = self._buckets.get(peer)
        if bucket is None:
            bucket = self._buckets[peer] = _Bucket(self._burst_s, now)
            if len(self._buckets) > self._peer_count_max:
                forgotten, _ = self._buckets.popitem(last=False)
                self._strangers.pop(forgotten, None)
        self._buckets.move_to_end(peer)
        if now - bucket.judged_at_s >= RECENT_S:
            bucket.is_stranger, bucket.judged_at_s = not self._is_member(peer), now
        left_s = self._left_to(bucket, now) - cost_s
        if bucket.is_stranger:
            penalty_s += elsewhere_s
        else:
            penalty_s = min(penalty_s, max(0.0, left_s + MEMBER_DEBT_S_MAX))
        bucket.left_s, bucket.at_s = left_s - penalty_s, now
        if bucket.is_stranger:
            self._strangers[peer] = now
            self._strangers.move_to_end(peer)
            while now - next(iter(self._strangers.values())) > RECENT_S:
                self._strangers.popitem(last=False)

    def delay_s(self, peer: Peer, now: float) -> float:
        """How long a peer has to wait to stay within its share."""
        bucket = self._buckets.get(peer)
        if bucket is None:
            return 0.0
        return max(0.0, -self._left_to(bucket, now) / self._refill(bucket))

    def _refill(self, bucket: _Bucket) -> float:
        if bucket.is_stranger:
            return self._strangers_share / max(1, len(self._strangers))
        return self._share

    def _left_to(self, bucket: _Bucket, now: float) -> float:
        refilled_s = (now - bucket.at_s) * self._refill(bucket)
        return min(self._burst_s, bucket.left_s + refilled_s)
