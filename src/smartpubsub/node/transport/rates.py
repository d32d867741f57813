"""How many messages of each kind every peer may send: token buckets."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from smartpubsub.seam import Peer


@dataclass(slots=True)
class _Bucket:
    """Fills with time up to what may come at once, and is emptied by what comes."""

    tokens: float
    at: float


class Rates:
    """Buckets by peer and kind, so many a second each. Those of peers long unheard are forgotten.

    What may come at once is what may come in a second. A message may overdraw a bucket, since it is
    read already; then whatever comes next of that kind waits until the bucket has made it up.
    """

    def __init__(self, per_s: float, peer_count_max: int) -> None:
        self._per_s = per_s
        self._peer_count_max = peer_count_max
        self._of: OrderedDict[Peer, dict[str, _Bucket]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._of)

    def delay_s(self, peer: Peer, kinds: Mapping[str, int], now: float) -> float:
        """How long a message with so much of each kind has to wait."""
        buckets = self._of.get(peer, {})
        tokens = [self._filled(buckets[kind], now) for kind in kinds if kind in buckets]
        return max(0.0, -min(tokens, default=0.0) / self._per_s)

    def take(self, peer: Peer, kinds: Mapping[str, int], now: float) -> None:
        """Count a message that is taken, after its delay or before."""
        buckets = self._of.setdefault(peer, {})
        self._of.move_to_end(peer)
        for kind, count in kinds.items():
            bucket = buckets.get(kind)
            if bucket is None:
                bucket = buckets[kind] = _Bucket(self._per_s, now)
            bucket.tokens, bucket.at = self._filled(bucket, now) - count, now
        if len(self._of) > self._peer_count_max:
            self._of.popitem(last=False)

    def _filled(self, bucket: _Bucket, now: float) -> float:
        return min(self._per_s, bucket.tokens + (now - bucket.at) * self._per_s)
