"""The keepers of a tree, who keep its events for audits (`audit.py`).

Usually they are the 2f + 1 nodes closest to the tree's key. Ids can be minted: an attacker with
some ids closer to the key than all honest nodes would be all of these. So where `region_size` is
set, the keepers are all nodes in a region around the key that holds about so many nodes, however
many nodes are closer. Minted ids add keepers and displace none. A node estimates the size of the
region by how close its own neighbours are to it, and looks up random places in the region, as a
lookup of the key itself would find the closest nodes only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import KEY_BITS, Key, key_of
from smartpubsub.kademlia.queries import Found
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.root_lookup import AGAIN_US, TREE_COUNT_MAX, RootLookup
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Deliver, Peer

PLACES = 4
"""How many places of a region are looked up at a time."""
FOUND_PER_PLACE = 8
KEEPERS_MAX = 64
_TRIES_MAX = 1 << 17


@dataclass(slots=True)
class _Region:
    """The nodes that lookups have found in a region."""

    peers: dict[Peer, int] = field(default_factory=dict)
    """When each was last found."""
    looked_us: int = -1 << 62
    under_way: int = 0


class TreeKeepers:
    """Looks the keepers of trees up; `on_found` is called with a tree when a lookup has ended."""

    def __init__(
        self,
        outbox: ScoutOutbox,
        settings: ScoutSettings,
        kademlia: Kademlia,
        roots: RootLookup,
        rng: Random,
        on_found: Callable[[str], None],
    ) -> None:
        self._outbox = outbox
        self._settings = settings
        self._kademlia = kademlia
        self._roots = roots
        self._rng = rng
        self._on_found = on_found
        self._regions: BoundedDict[str, _Region] = BoundedDict(TREE_COUNT_MAX)
        self._lookups: dict[int, str] = {}

    def found(self, tree: str) -> list[Peer]:
        """The keepers that are known, without this node."""
        own = self._kademlia.own.peer
        if not self._settings.region_size:
            return [peer for peer in self._roots.found(tree) if peer != own]
        region = self._regions.get(tree)
        return [] if region is None else [peer for peer in region.peers if peer != own]

    def is_under_way(self, tree: str) -> bool:
        """Whether a region is being looked up."""
        region = self._regions.get(tree)
        return region is not None and bool(region.under_way)

    def prepare(self, tree: str) -> None:
        """Look a tree up unless that was done not long ago."""
        if not self._settings.region_size:
            self._roots.prepare(tree, self._settings.audit_path_count)
            return
        region = self._regions.get(tree)
        if region is None or region.looked_us < self._outbox.now - self._settings.renew_us:
            self.look_up(tree)

    def look_up(self, tree: str) -> None:
        """Look a tree up, unless that was done just now."""
        if not self._settings.region_size:
            self._roots.look_up(tree, self._settings.audit_path_count)
            return
        region = self._regions.get(tree)
        if region is None:
            region = self._regions[tree] = _Region()
        if region.under_way or self._outbox.now - region.looked_us < AGAIN_US:
            return
        region.looked_us = self._outbox.now
        names = [self._place(tree) for _ in range(PLACES)]
        region.under_way = len(names)
        for name in names:
            number, effects = self._kademlia.find_closest(
                *(name, self._outbox.now, FOUND_PER_PLACE), paths=1, waits_for_slow=False
            )
            self._lookups[number] = tree
            for effect in effects:
                if isinstance(effect, Deliver):  # The lookup has ended at once.
                    self.on_found(effect.item)
                else:
                    self._outbox.emit(effect)

    def on_found(self, found: object) -> None:
        """A lookup has ended."""
        tree = self._lookups.pop(found.number, None) if isinstance(found, Found) else None
        region = None if tree is None else self._regions.get(tree)
        if tree is None or region is None or not isinstance(found, Found):
            return
        region.under_way -= 1
        key, radius, now = key_of(tree.encode()), self._radius(), self._outbox.now
        for contact in found.closest:
            if contact.key ^ key <= radius:
                region.peers[contact.peer] = now
        oldest_us = now - 2 * self._settings.renew_us
        region.peers = {peer: us for peer, us in region.peers.items() if us > oldest_us}
        if len(region.peers) > KEEPERS_MAX:
            kept = self._rng.sample([*region.peers], KEEPERS_MAX)
            region.peers = {peer: region.peers[peer] for peer in kept}
        if not region.under_way:
            self._on_found(tree)

    def _radius(self) -> Key:
        """How far from a key the farthest node of its region is."""
        own, k = self._kademlia.own.key, self._kademlia.settings.k
        around = self._kademlia.table.closest(own, k)
        if len(around) < k:
            return (1 << KEY_BITS) - 1  # All nodes of a small network.
        return (around[-1].key ^ own) * self._settings.region_size // len(around)

    def _place(self, tree: str) -> bytes:
        """A name whose key lies in a tree's region."""
        key, radius = key_of(tree.encode()), self._radius()
        begin = b"region/" + key.to_bytes(KEY_BITS // 8, "big")
        for _ in range(_TRIES_MAX):
            name = begin + self._rng.getrandbits(64).to_bytes(8, "big")
            if key_of(name) ^ key <= radius:
                return name
        return tree.encode()

    def check(self) -> None:
        """Assert the invariants: lookups are counted in their regions."""
        for tree, region in self._regions.items():
            under_way = sum(name == tree for name in self._lookups.values())
            assert under_way == region.under_way
            assert len(region.peers) <= KEEPERS_MAX
