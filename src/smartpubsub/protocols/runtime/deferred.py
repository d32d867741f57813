"""Calls that wait until a node has joined the overlay."""

from __future__ import annotations

from collections.abc import Callable

DEFERRED_COUNT_MAX = 100_000
"""Calls of one application that wait; each keeps something in memory."""


class Deferred:
    """Runs calls at once when open; until then keeps them in order, at most `count_max` of them."""

    def __init__(self, count_max: int) -> None:
        self.is_open = False
        self._count_max = count_max
        self._calls: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._calls)

    def run(self, call: Callable[[], None]) -> bool:
        """Run a call now or when opened; False if there is no room for it."""
        if self.is_open:
            call()
            return True
        if len(self._calls) >= self._count_max:
            return False
        self._calls.append(call)
        return True

    def open(self) -> None:
        """Run everything that waits, and from now on every call at once."""
        self.is_open = True
        calls, self._calls = self._calls, []
        for call in calls:
            call()
