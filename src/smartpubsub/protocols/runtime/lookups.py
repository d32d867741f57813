"""Lookups in the overlay, each with a callback for its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.queries import Found, Got, Put
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.seam import Deliver, Effect


class Lookups:
    """Starts the lookups of one protocol, and calls `then` of each with its result.

    A lookup may end, and call `then`, before the call that has started it returns.
    """

    def __init__(self, outbox: Outbox[Any], kademlia: Kademlia) -> None:
        self._outbox = outbox
        self._kademlia = kademlia
        self._pending: dict[int, Callable[..., None]] = {}

    def find_closest(
        self,
        name: bytes,
        then: Callable[[Found], None],
        count: int = 0,
        *,
        paths: int = 0,
        waits_for_slow: bool = True,
    ) -> None:
        """Find the peers closest to a name; see `Kademlia.find_closest` for the options."""
        started = self._kademlia.find_closest(
            name, self._outbox.now, count, paths=paths, waits_for_slow=waits_for_slow
        )
        self._start(started, then)

    def get(self, name: bytes, then: Callable[[Got], None]) -> None:
        """Find a value in the overlay."""
        self._start(self._kademlia.get(name, self._outbox.now), then)

    def put(self, name: bytes, value: bytes, then: Callable[[Put], None]) -> None:
        """Store a value on the nodes closest to its name."""
        self._start(self._kademlia.put(name, value, self._outbox.now), then)

    def _start(self, started: tuple[int, list[Effect]], then: Callable[..., None]) -> None:
        number, effects = started
        self._pending[number] = then
        for effect in effects:
            if isinstance(effect, Deliver):  # The lookup has ended at once.
                self.on_result(effect.item)
            else:
                self._outbox.emit(effect)

    def on_result(self, item: object) -> None:
        """Take the result of a lookup, unless another component of the node has started it."""
        if isinstance(item, Found | Got | Put):
            then = self._pending.pop(item.number, None)
            if then is not None:
                then(item)

    def check(self) -> None:
        """Assert that no number was used again: lookups are pending in the order of their start."""
        assert list(self._pending) == sorted(self._pending)
