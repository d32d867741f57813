"""This node's access to the overlay: lookups with a continuation, and what it knows of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Found, Got, Put
from smartpubsub.protocols.pulsarcast.messages import Part
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.seam import Deliver, Effect, Peer


class Overlay:
    """Starts lookups and calls the continuation of each when its result arrives."""

    def __init__(self, outbox: Outbox[Part], kademlia: Kademlia) -> None:
        self.own = kademlia.own
        self.is_ready = False
        """Whether this node has joined the overlay."""
        self._outbox = outbox
        self._kademlia = kademlia
        self._continuations: dict[int, Callable[..., None]] = {}
        self._last_number = 0

    def note_joined(self) -> None:
        """Note that this node has joined the overlay."""
        self.is_ready = True

    def is_cut_off(self, found: Found) -> bool:
        """Whether a lookup found no other node, although some answered lately.

        A node whose peers are all gone is alone, and is the only keeper of what it publishes.
        """
        return len(found.closest) <= 1 and self._kademlia.table.has_trusted

    def verify(self, peer: Peer) -> None:
        """Find out whether a peer is gone; if so the overlay reports `Lost`."""
        for effect in self._kademlia.verify(peer, self._outbox.now):
            self._outbox.emit(effect)

    def new_number(self) -> int:
        """Return a number that no request of this node has used."""
        self._last_number += 1
        return self._last_number

    def closest_known(self, name: bytes, count: int) -> Sequence[Contact]:
        """Return the peers closest to a name that this node knows without a lookup."""
        return self._kademlia.closest_local(name, count)

    def look_up(self, name: bytes, then: Callable[[Found], None], count: int = 0) -> None:
        """Find the peers closest to a name; a smaller `count` needs fewer answers."""
        self._start(self._kademlia.find_closest(name, self._outbox.now, count), then)

    def get(self, name: bytes, then: Callable[[Got], None]) -> None:
        """Find a value in the overlay."""
        self._start(self._kademlia.get(name, self._outbox.now), then)

    def put(self, name: bytes, value: bytes, then: Callable[[Put], None]) -> None:
        """Store a value on the nodes closest to its name."""
        self._start(self._kademlia.put(name, value, self._outbox.now), then)

    def _start(self, started: tuple[int, list[Effect]], then: Callable[..., None]) -> None:
        number, effects = started
        self._continuations[number] = then
        for effect in effects:
            if isinstance(effect, Deliver):  # The lookup ended without asking a peer.
                self.on_result(effect.item)
            else:
                self._outbox.emit(effect)

    def on_result(self, item: object) -> None:
        """Continue with the result of a lookup; ignore those that other protocols started."""
        if isinstance(item, Found | Got | Put):
            then = self._continuations.pop(item.number, None)
            if then is not None:
                then(item)
