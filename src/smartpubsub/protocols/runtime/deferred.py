"""Calls that wait until a node has joined the overlay."""

from __future__ import annotations

from collections.abc import Callable

from smartpubsub.errors import SmartPubSubError

DEFERRED_COUNT_MAX = 100_000
"""Calls of one application that wait; each keeps something in memory."""


class TooManyCallsError(SmartPubSubError):
    """A call before the node has joined the network, while too many others wait for that."""


class Deferred:
    """Runs calls at once when open; until then keeps them in order, at most `count_max` of them."""

    def __init__(self, count_max: int) -> None:
        self.is_open = False
        self._count_max = count_max
        self._calls: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._calls)

    def run(self, call: Callable[[], None]) -> bool:
        """Run a call now or when opened; return False if too many wait."""
        if self.is_open:
            call()
            return True
        if len(self._calls) >= self._count_max:
            return False
        self._calls.append(call)
        return True

    def call(self, call: Callable[[], None]) -> None:
        """Run a call of the application now or when opened; raise an error if too many wait."""
        self.must_have_room()
        self.run(call)

    def must_have_room(self) -> None:
        """Raise an error if too many calls wait."""
        if not self.is_open and len(self._calls) >= self._count_max:
            raise TooManyCallsError(
                f"{self._count_max:,} calls wait until the node has joined the network;"
                " call again when it has"
            )

    def run_anyway(self, call: Callable[[], None]) -> None:
        """Run a call now or when opened, however many wait.

        For calls that are limited otherwise: they end what another call has begun, or were stored.
        """
        if self.is_open:
            call()
        else:
            self._calls.append(call)

    def open(self) -> None:
        """Run all calls that wait, and from now on every call at once."""
        self.is_open = True
        calls, self._calls = self._calls, []
        for call in calls:
            call()
