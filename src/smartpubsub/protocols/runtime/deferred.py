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
        """Run a call now or when opened; False if there is no room for it."""
        if self.is_open:
            call()
            return True
        if len(self._calls) >= self._count_max:
            return False
        self._calls.append(call)
        return True

    def call(self, call: Callable[[], None]) -> None:
        """Run a call of the application now or when opened; an error if there is no room for it."""
        self.must_have_room()
        self.run(call)

    def must_have_room(self) -> None:
        """Raise an error if there is no room for another call."""
        if not self.is_open and len(self._calls) >= self._count_max:
            raise TooManyCallsError(
                f"{self._count_max:,} calls wait until the node has joined the network;"
                " call again when it has"
            )

    def run_anyway(self, call: Callable[[], None]) -> None:
        """Run a call now or when opened, however many wait.

        It is one that something else limits: it ends what another call has begun, or was stored.
        """
        if self.is_open:
            call()
        else:
            self._calls.append(call)

    def open(self) -> None:
        """Run everything that waits, and from now on every call at once."""
        self.is_open = True
        calls, self._calls = self._calls, []
        for call in calls:
            call()
