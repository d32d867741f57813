"""Timing without the garbage collector, as the best of a few tries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from smartpubsub.sim.kernel.collector import collector_off

Item = TypeVar("Item")

TRIES = 3


def rate(work: Callable[[Item], object], items: Sequence[Item], tries: int = TRIES) -> float:
    """Items per second, processed one after the other."""

    def each() -> None:
        for item in items:
            work(item)  # Kept results would also measure their memory.

    return len(items) / best_seconds(each, tries)


def best_seconds(work: Callable[[], object], tries: int = TRIES) -> float:
    """The shortest of a few tries, which other load disturbed least."""
    seconds = []
    with collector_off():
        for _ in range(tries):
            start = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - start)
    return min(seconds)
