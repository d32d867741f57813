"""A wrapper around a core that notes its inputs and effects."""

from __future__ import annotations

from collections.abc import Mapping

from smartpubsub.kademlia.messages import Message, wire_bytes
from smartpubsub.protocols.node import NodeCore
from smartpubsub.seam import (
    Answer,
    Answered,
    Ask,
    Asked,
    Effect,
    Event,
    Peer,
    Received,
    Send,
    TimerFired,
)
from smartpubsub.sim.experiments.stacks import Stack
from smartpubsub.sim.kernel.world import Sizes, owner_of
from smartpubsub.testbed.messages import Came, Passed
from smartpubsub.testbed.notebook import Notebook

_ARRIVALS = frozenset({Received, Asked, Answered})
_DEPARTURES = frozenset({Send, Ask, Answer})


class TracedCore:
    """A node's core as its host sees it."""

    def __init__(
        self,
        core: NodeCore,
        node: int,
        notebook: Notebook,
        nodes_by_peer: Mapping[Peer, int],
        stack: Stack,
    ) -> None:
        self.core = core
        self._node = node
        self._notebook = notebook
        self._nodes_by_peer = nodes_by_peer
        self._copies = stack.copies
        self._sizes: Sizes = {Message: wire_bytes, **stack.sizes}
        # The same message object often goes to many peers in a row.
        self._measured: tuple[object, int] = (None, 0)

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Return the effects of an event."""
        kind = type(event)
        if kind in _ARRIVALS:
            self._note_arrival(event.peer, event.message)  # type: ignore[union-attr]
        elif kind is TimerFired:
            owner = owner_of(event.timer)  # type: ignore[union-attr]
            self._notebook.add(self._node, Passed("timer", -1, owner, 0))
        return self.noted(self.core.handle(event, now))

    def noted(self, effects: list[Effect]) -> list[Effect]:
        """Note what is sent, and return the effects unchanged."""
        for effect in effects:
            if type(effect) in _DEPARTURES:
                message = effect.message  # type: ignore[union-attr]
                if message is not self._measured[0]:
                    self._measured = message, self._sizes[type(message)](message)
                peer = self._nodes_by_peer.get(effect.peer, -1)  # type: ignore[union-attr]
                kind = type(message).__name__
                self._notebook.add(self._node, Passed("send", peer, kind, self._measured[1]))
        return effects

    def _note_arrival(self, peer: Peer, message: object) -> None:
        number, kind = self._nodes_by_peer.get(peer, -1), type(message).__name__
        self._notebook.add(self._node, Passed("receive", number, kind, 0))
        copies = self._copies.get(type(message))
        if copies is not None and (ids := tuple(copies(message))):
            self._notebook.add(self._node, Came(number, ids))
