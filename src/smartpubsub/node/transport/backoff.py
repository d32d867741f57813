"""Backoff after failed dials."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from random import Random


class Backoff:
    """The backoff of each target, a peer or a peer and a protocol: it grows with every failure."""

    def __init__(self, s_first: float, s_max: float, count_max: int, rng: Random) -> None:
        self._s_first = s_first
        self._s_max = s_max
        self._count_max = count_max
        self._rng = rng
        self._failed: OrderedDict[Hashable, tuple[int, float]] = OrderedDict()

    def is_over(self, target: Hashable, now: float) -> bool:
        """Whether the target may be dialled."""
        failed = self._failed.get(target)
        return failed is None or now >= failed[1]

    def fail(self, target: Hashable, now: float) -> None:
        """Record a failed dial."""
        times, _ = self._failed.pop(target, (0, 0.0))
        wait_s = min(self._s_max, self._s_first * 2.0 ** min(times, 30))
        self._failed[target] = times + 1, now + wait_s * self._rng.uniform(0.8, 1.2)
        if len(self._failed) > self._count_max:
            self._failed.popitem(last=False)

    def succeed(self, target: Hashable) -> None:
        """Record a successful dial: the backoff ends."""
        self._failed.pop(target, None)
