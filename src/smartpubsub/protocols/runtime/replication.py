"""Which nodes keep something: the f + 1 closest to its name, of those that are known and not down.

The closest nodes change when nodes come and go. A node that keeps something asks again from time
to time, and hands it over to the nodes that are new among them; how it does so is the protocol's
concern.
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
    """Which peers are chosen for nothing now; `FailureDetector` is one implementation."""

    @property
    def suspected_count(self) -> int:
        """At least as many peers as are suspected."""
        ...

    def is_suspected(self, peer: Peer) -> bool:
        """Whether a peer is not chosen now."""
        ...


class SilentPeers:
    """Peers that did not answer, each suspected for a while."""

    def __init__(self, outbox: Outbox[Any], suspect_us: int) -> None:
        self._outbox = outbox
        self._suspect_us = suspect_us
        self._until_us: BoundedDict[Peer, int] = BoundedDict(SUSPECTED_COUNT_MAX)

    @property
    def suspected_count(self) -> int:
        """At least as many peers as are suspected."""
        return len(self._until_us)

    def is_suspected(self, peer: Peer) -> bool:
        """Whether a peer did not answer a while ago, and has sent nothing since."""
        until_us = self._until_us.get(peer)
        return until_us is not None and self._outbox.now < until_us

    def suspect(self, peer: Peer, for_us: int | None = None) -> None:
        """Choose a peer for nothing for a while: it did not answer."""
        self._until_us[peer] = self._outbox.now + (for_us or self._suspect_us)

    def heard(self, peer: Peer) -> bool:
        """Trust a peer again: it has sent a message. Return whether it is remembered as silent."""
        return self._until_us.pop(peer, None) is not None

    def __contains__(self, peer: Peer) -> bool:
        """Whether a peer is remembered as silent, suspected or not any more."""
        return peer in self._until_us

    def forget_old(self) -> None:
        """Forget suspicions that have expired."""
        now = self._outbox.now
        for peer in [peer for peer, until_us in self._until_us.items() if until_us <= now]:
            del self._until_us[peer]


class Closest:
    """The known nodes closest to a name, without those that are suspected."""

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
        known = [*self._candidates(name, count), self.own]
        return self.trusted(sorted(known, key=lambda contact: contact.key ^ key))[:count]

    def _candidates(self, name: bytes, count: int) -> list[Contact]:
        """Enough peers, by their distance, for `count` of them not to be suspected."""
        return self._kademlia.closest_local(name, count + self._suspicion.suspected_count)
