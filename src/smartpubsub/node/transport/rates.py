"""Rate limits: token buckets for each peer and kind of message."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from smartpubsub.seam import Peer

EMPTY = "empty"
"""The kind of a message without contents, which no node of this version sends."""
RARER = 10
"""The buckets of rare kinds are refilled this many times more slowly."""


@dataclass(slots=True)
class _Bucket:
    """A token bucket."""

    tokens: float
    at: float


class Rates:
    """Buckets by peer and kind; those of peers that are silent for long are removed.

    A burst is the number of messages of one second. A message may overdraw a bucket, since it is
    read already; the next one of that kind waits until the bucket is refilled. The buckets of rare
    kinds are refilled more slowly.
    """

    def __init__(self, per_s: float, peer_count_max: int) -> None:
        self.rare_kinds = {EMPTY}
        """Kinds that come in rare bursts."""
        self._per_s = per_s
        self._peer_count_max = peer_count_max
        self._of: OrderedDict[Peer, dict[str, _Bucket]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._of)

    def delay_s(self, peer: Peer, kinds: Mapping[str, int], now: float) -> float:
        """The delay of a message with these counts by kind."""
        buckets = self._of.get(peer, {})
        known = [kind for kind in kinds if kind in buckets]
        delays = [-self._filled(kind, buckets[kind], now) / self._refill(kind) for kind in known]
        return max(0.0, *delays, 0.0)

    def take(self, peer: Peer, kinds: Mapping[str, int], now: float) -> None:
        """Count a message."""
        buckets = self._of.setdefault(peer, {})
        self._of.move_to_end(peer)
        for kind, count in kinds.items():
            bucket = buckets.get(kind)
            if bucket is None:
                bucket = buckets[kind] = _Bucket(self._per_s, now)
            bucket.tokens, bucket.at = self._filled(kind, bucket, now) - count, now
        if len(self._of) > self._peer_count_max:
            self._of.popitem(last=False)

    def _refill(self, kind: str) -> float:
        return self._per_s / RARER if kind in self.rare_kinds else self._per_s

    def _filled(self, kind: str, bucket: _Bucket, now: float) -> float:
        return min(self._per_s, bucket.tokens + (now - bucket.at) * self._refill(kind))
