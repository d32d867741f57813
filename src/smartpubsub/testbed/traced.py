"""A wrapper around a core that notes its inputs and effects."""

from __future__ import annotations

from collections.abc import Mapping

from smartpubsub.kademlia.settings import Settings
from smartpubsub.protocols.codecs import WireLimits, common_codecs
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.spec import ProtocolSpec
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
        spec: ProtocolSpec,
    ) -> None:
        self.core = core
        self._node = node
        self._notebook = notebook
        self._nodes_by_peer = nodes_by_peer
        codecs = [*common_codecs(Settings()), *spec.codecs(WireLimits())]
        self._event_ids = {c.message: c.event_ids for c in codecs if c.event_ids is not None}
        self._sizes: Sizes = {codec.message: codec.size for codec in codecs}
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

    def gather(self) -> None:
        """Hold messages back until `release`."""
        self.core.gather()

    def release(self, now: int) -> list[Effect]:
        """Send the messages that were held back."""
        return self.noted(self.core.release(now))

    def noted(self, effects: list[Effect]) -> list[Effect]:
        """Note the messages that effects send, and return the effects unchanged."""
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
        event_ids = self._event_ids.get(type(message))
        if event_ids is not None and (ids := tuple(event_ids(message))):
            self._notebook.add(self._node, Came(number, ids))
