"""The base of all components: the services that hold no state of a topic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from smartpubsub.protocols.pulsarcast.liveness import Liveness
from smartpubsub.protocols.pulsarcast.messages import Part
from smartpubsub.protocols.pulsarcast.overlay import Overlay
from smartpubsub.protocols.pulsarcast.permissions import Permissions
from smartpubsub.protocols.pulsarcast.persistence import TopicPersistence
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.seam import Peer


@dataclass(eq=False)
class Component:
    """Part of one node's Pulsarcast; a subclass adds its ports and the state that it owns."""

    _outbox: Outbox[Part]
    _settings: PulsarSettings
    _overlay: Overlay
    _liveness: Liveness
    _permissions: Permissions
    _persistence: TopicPersistence

    @property
    def _own(self) -> Peer:
        return self._overlay.own.peer

    def _others(self, peers: Iterable[Peer]) -> list[Peer]:
        """Return peers, each once and without this node."""
        return [peer for peer in dict.fromkeys(peers) if peer != self._own]
