"""Which nodes keep something: the f + 1 closest to its name that are known and not suspected.

The closest nodes change when nodes come and go. A protocol that keeps something there asks again
from time to time, and hands it over to the nodes that are new among them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.seam import Peer

SUSPECTED_COUNT_MAX = 10_000


class Suspicion(Protocol):
    """Which peers a node does not choose now; `FailureDetector` is one implementation."""

    @property
    def suspected_count(self) -> int:
        """An upper bound of the number of suspected peers."""
        ...

    def is_suspected(self, peer: Peer) -> bool:
        """Whether the node does not choose a peer now."""
        ...


class SilentPeers:
    """Peers that did not answer, which are suspected for a while."""

    def __init__(self, outbox: Outbox[Any], suspect_us: int) -> None:
        self._outbox = outbox
        self._suspect_us = suspect_us
        self._until_us: BoundedDict[Peer, int] = BoundedDict(SUSPECTED_COUNT_MAX)

    @property
    def suspected_count(self) -> int:
        """An upper bound of the number of suspected peers."""
        return len(self._until_us)

    def is_suspected(self, peer: Peer) -> bool:
        """Whether a peer has recently left a request unanswered, and has sent nothing since."""
        until_us = self._until_us.get(peer)
        return until_us is not None and self._outbox.now < until_us

    def suspect(self, peer: Peer, for_us: int | None = None) -> None:
        """Suspect a peer that did not answer, for a while."""
        self._until_us[peer] = self._outbox.now + (for_us or self._suspect_us)

    def heard(self, peer: Peer) -> bool:
        """Trust a peer again that has sent a message; return whether it was known as silent."""
        return self._until_us.pop(peer, None) is not None

    def __contains__(self, peer: Peer) -> bool:
        """Whether a peer is known as silent, even if the suspicion has expired."""
        return peer in self._until_us

    def forget_old(self) -> None:
        """Forget suspicions that have expired."""
        now = self._outbox.now
        for peer in [peer for peer, until_us in self._until_us.items() if until_us <= now]:
            del self._until_us[peer]


class Closest:
    """The known nodes closest to a name, without suspected ones."""

    def __init__(self, kademlia: Kademlia, suspicion: Suspicion) -> None:
        self.own = kademlia.own
        self._kademlia = kademlia
        self._suspicion = suspicion

    def trusted(self, contacts: Iterable[Contact]) -> list[Contact]:
        """Leave out suspected peers."""
        is_suspected = self._suspicion.is_suspected
        return [contact for contact in contacts if not is_suspected(contact.peer)]

    def closest(self, name: bytes, count: int) -> tuple[Contact, ...]:
        """The closest peers, without this node."""
        suspected = self._suspicion.suspected_count
        known = self._kademlia.closest_local(name, count + suspected)
        return tuple(self.trusted(known)[:count] if suspected else known)

    def closest_nodes(self, name: bytes, count: int) -> list[Contact]:
        """The closest nodes, of which this node may be one."""
        key = key_of(name)
        known = [*self.closest(name, count), self.own]
        return sorted(known, key=lambda contact: contact.key ^ key)[:count]
