"""Which nodes keep the directory of an attribute: the f + 1 closest to its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.queries import Found
from smartpubsub.protocols.fastdelivery.component import FastOutbox
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.lookups import Lookups
from smartpubsub.protocols.runtime.replication import Closest, SilentPeers
from smartpubsub.seam import Peer

OnKeepers = Callable[[list[Contact]], None]

KNOWN_COUNT_MAX = 10_000
"""Names whose keepers are cached."""


class KeeperLookup(Closest):
    """Finds keepers by Kademlia lookups, caches them, and leaves out suspected peers."""

    def __init__(
        self, outbox: FastOutbox, kademlia: Kademlia, lookups: Lookups, settings: FastSettings
    ) -> None:
        self._silent = SilentPeers(outbox, settings.suspect_us)
        super().__init__(kademlia, self._silent)
        self._outbox = outbox
        self._lookups = lookups
        self._settings = settings
        self._known: dict[bytes, tuple[int, tuple[Contact, ...]]] = BoundedDict(KNOWN_COUNT_MAX)
        """The result of each lookup, and until when it is valid."""
        self._waiting: dict[bytes, list[OnKeepers]] = {}

    # --- keepers of a name ---

    def find(self, name: bytes, then: OnKeepers) -> None:
        """Look up the nodes closest to a name that are not suspected; may include this node."""
        known = self._known.get(name)
        if known is not None and self._outbox.now < known[0]:
            then(self._chosen(known[1]))
            return
        waiting = self._waiting.setdefault(name, [])
        waiting.append(then)
        if len(waiting) == 1:
            self._lookups.find_closest(name, partial(self._on_found, name))

    def _on_found(self, name: bytes, found: Found) -> None:
        self._known[name] = (self._outbox.now + self._settings.find_us, found.closest)
        for then in self._waiting.pop(name, []):
            then(self._chosen(found.closest))

    def _chosen(self, closest: tuple[Contact, ...]) -> list[Contact]:
        return self.trusted(closest)[: self._settings.asked_count]

    def closer(self, name: str, keeper: Peer, named: Iterable[Contact]) -> list[Contact]:
        """The peers that a keeper names, as far as an honest keeper of a name would name them."""
        target = key_of(name.encode())
        distance = key_of(keeper) ^ target
        closer = [contact for contact in named if contact.key ^ target < distance]
        return self.trusted(closer[: self._settings.keeper_count])

    # --- suspected peers ---

    def suspect(self, peer: Peer) -> None:
        """Suspect a peer that did not answer, here and in the overlay."""
        self._silent.suspect(peer)
        for effect in self._kademlia.suspect(peer, self._outbox.now):
            self._outbox.emit(effect)

    def heard(self, peer: Peer) -> None:
        """Trust a peer again that has sent a message."""
        self._silent.heard(peer)

    def tick(self) -> None:
        """Drop cached keepers and suspicions that have expired."""
        now = self._outbox.now
        self._silent.forget_old()
        for name in [name for name, (until, _) in self._known.items() if until <= now]:
            del self._known[name]

    def check(self) -> None:
        """Assert that every lookup has a caller that waits for it."""
        assert all(self._waiting.values())
