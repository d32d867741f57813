"""The base of all components, with the services that hold no state of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Found
from smartpubsub.protocols.pulsarcast.liveness import Liveness
from smartpubsub.protocols.pulsarcast.messages import Part
from smartpubsub.protocols.pulsarcast.permissions import Permissions
from smartpubsub.protocols.pulsarcast.persistence import TopicPersistence
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings
from smartpubsub.protocols.runtime.lookups import Lookups
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.seam import Peer


class Overlay(Lookups):
    """Lookups, the peers that are known without one, and whether this node has joined."""

    def __init__(self, outbox: Outbox[Part], kademlia: Kademlia) -> None:
        super().__init__(outbox, kademlia)
        self.own = kademlia.own
        self.blame = kademlia.blame
        self.is_ready = False
        """Whether this node has joined the overlay."""
        self._last_number = 0

    def note_joined(self) -> None:
        """Note that this node has joined the overlay."""
        self.is_ready = True

    def is_cut_off(self, found: Found) -> bool:
        """Whether a lookup found no other node, although some answered recently.

        A node whose peers are all gone is alone, and the only keeper of its events.
        """
        return len(found.closest) <= 1 and self._kademlia.table.has_trusted

    def verify(self, peer: Peer) -> None:
        """Have the overlay ping a peer; it reports `Lost` if there is no answer."""
        for effect in self._kademlia.verify(peer, self._outbox.now):
            self._outbox.emit(effect)

    def is_heard_since(self, peer: Peer, since_us: int) -> bool:
        """Whether a peer has sent any message after a time, also one of another protocol."""
        return self._kademlia.heard_us.get(peer, since_us) > since_us

    @property
    def round_trip_us(self) -> int:
        """The smoothed round-trip time of lookups."""
        return self._kademlia.round_trip_us

    def new_number(self) -> int:
        """Return a number that no request of this node has used."""
        self._last_number += 1
        return self._last_number

    def closest_known(self, name: bytes, count: int) -> Sequence[Contact]:
        """Return the peers closest to a name that this node knows without a lookup."""
        return self._kademlia.closest_local(name, count)


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

    def _by_blame(self, contacts: Iterable[Contact]) -> list[Contact]:
        """Sort peers so that those blamed for lost events come last."""
        blame, now = self._overlay.blame, self._outbox.now
        return blame.least_first(contacts, now, lambda contact: contact.peer)

    def _others(self, peers: Iterable[Peer]) -> list[Peer]:
        """Return peers, each once and without this node."""
        return [peer for peer in dict.fromkeys(peers) if peer != self._own]
