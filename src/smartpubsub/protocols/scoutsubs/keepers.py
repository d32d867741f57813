"""The keepers of an attribute: the nodes that keep its events for audits (`audit.py`).

Usually they are the 2f + 1 nodes closest to the attribute's key. Ids can be minted: an attacker
could have enough ids closer to the key than all honest nodes. So if `region_size` is set, the
keepers are all nodes in a region around the key that holds at least about twice as many nodes,
however many nodes are closer. Minted ids add keepers and displace none.

A node estimates the size of the region by how far apart nodes are around itself and around random
places. Minted ids make a place seem crowded, so many nodes in one small part of a place count
little more than one, and the node uses the largest estimate.

The region consists of bands. A band has the nodes whose distance from the key is between two powers
of two, so it is a branch of the overlay that every node finds by a lookup of any place in it. Nodes
with different estimates look up some of the same bands. Minted ids are in the innermost band, and
questions go to all bands in turn. Around some keys there are few nodes, and all of them may lie. So
a region with fewer than `region_size` nodes outside the innermost band, not counting convicted
nodes, gets further bands. Ids that are minted for another key may fill a band, so that lookups find
no honest node there; then the wider ones have to have some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import log
from random import Random

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import KEY_BITS, Contact, Key, key_of
from smartpubsub.kademlia.queries import Found
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.runtime.lookups import Lookups
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.root_lookup import AGAIN_US, TREE_COUNT_MAX, RootLookup
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Peer

FOUND_PER_BAND = (10, 10, 8, 6)
"""How many nodes to look up in each band, from the widest on: each holds half as many nodes as the
one before."""
FOUND_CLOSEST = 8
"""How many nodes to look up closest to the key."""
DEPTH = 4
"""The number of bands beside the innermost one."""
ASKED_APART = 3
"""So many bands, from the widest on, have their own turn in questions; the others share one."""
WIDER = 2
"""A region is this many times as large as it has to be: estimates differ, and a publisher and a
subscriber that know no honest keeper in common lose events."""
RANDOM_PLACES = 2
PARTS = 16
PRECISION = 1_000
"""An estimate divides a place into this many parts, and counts in thousandths."""
BAND_COUNT_MAX = 64
"""How many nodes of a band a node remembers."""
_TRIES_MAX = 1 << 17
_WHOLE = (1 << KEY_BITS) - 1
"""The radius of a network that is known as a whole."""
_hashed = key_of.__wrapped__
"""Without the cache of `key_of`: names that are tried once would evict useful entries."""
_SPACING = ""
"""The tree name under which lookups around random places run."""


@dataclass(slots=True)
class _Region:
    """The nodes that lookups have found in a region."""

    bands: dict[int, dict[Peer, int]] = field(default_factory=dict)
    """By the power of two above the distance: when each node was last found."""
    wider: int = 0
    """How many bands it has beyond the usual ones, because those hold few nodes."""
    looked_us: int = -1 << 62


@dataclass(eq=False)
class TreeKeepers:
    """Looks keepers up; `on_found` is called with a tree when its lookups have ended."""

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _kademlia: Kademlia
    _lookups: Lookups
    _detector: FailureDetector
    _roots: RootLookup
    _rng: Random
    _on_found: Callable[[str], None]

    def __post_init__(self) -> None:
        self._regions: BoundedDict[str, _Region] = BoundedDict(TREE_COUNT_MAX)
        self._under_way: Counter[str] = Counter()
        """How many lookups of each tree have not ended."""
        self._spacing: Key = 0
        """How far apart nodes are, by lookups around random places; 0 if it is not known."""
        self._spacings: list[Key] = []
        """The estimates of the current lookups around random places that have ended."""
        self._spaced_us = -1 << 62
        self._waiting: dict[str, None] = {}
        """Trees whose region will be looked up when the spacing is known."""

    # --- known keepers ---

    def bands(self, tree: str) -> list[list[Peer]]:
        """The known keepers by their distance from the key, without this and convicted nodes."""
        own, is_banned = self._kademlia.own.peer, self._detector.is_banned
        others = [[p for p in band if p != own and not is_banned(p)] for band in self._bands(tree)]
        return [band for band in others if band]

    def _bands(self, tree: str) -> list[list[Peer]]:
        if not self._settings.region_size:
            return [self._closest(tree)]
        region = self._regions.get(tree)
        bands = {} if region is None else region.bands
        outer = sorted(bands, reverse=True)
        inner = [peer for power in outer[ASKED_APART:] for peer in bands[power]]
        return [*([*bands[power]] for power in outer[:ASKED_APART]), inner]

    def _closest(self, tree: str) -> list[Peer]:
        """The closest nodes to a tree's key, by the last lookup and by the routing table.

        The lookup did not wait for slow nodes. If the slow nodes of the routing table did not count
        too, a publisher would leave them out, and a subscriber would not ask them for the events
        that only they keep.
        """
        found = self._roots.found(tree)
        local = self._kademlia.closest_local(tree.encode(), 2 * self._settings.backups + 1)
        known = [
            contact.peer
            for contact in local
            if self._roots.reaches(tree, contact) and not self._detector.is_suspected(contact.peer)
        ]
        return list(dict.fromkeys([*found, *known]))

    def includes_own(self, tree: str) -> bool:
        """Whether this node has found itself among the keepers."""
        own = self._kademlia.own.peer
        return any(own in band for band in self._bands(tree))

    def found(self, tree: str) -> list[Peer]:
        """The known keepers, without this node."""
        return [peer for band in self.bands(tree) for peer in band]

    def are_few(self, tree: str) -> bool:
        """Whether too few other keepers are known: some were cut off, or the network is small."""
        return len(self.found(tree)) < (self._settings.region_size or 2 * self._settings.backups)

    def is_under_way(self, tree: str) -> bool:
        """Whether the keepers of a tree are being looked up."""
        if not self._settings.region_size:
            return self._roots.is_under_way(tree)
        return tree in self._waiting or self._under_way[tree] > 0

    def on_departed(self, peer: Peer) -> None:
        """Drop a keeper that has left: the publisher needs no signature of it any more.

        The keeper or its machine has said that it has left. A silent keeper stays: an attacker that
        delays messages of keepers must not reduce the number of signatures that are enough.
        """
        for region in self._regions.values():
            for band in region.bands.values():
                band.pop(peer, None)

    # --- lookups ---

    @property
    def is_slow(self) -> bool:
        """Whether lookups take so long that links are full."""
        return self._kademlia.is_slow

    def are_known(self, tree: str) -> bool:
        """Whether the nodes closest to a tree's key were looked up recently."""
        is_fresh = self._roots.is_fresh(tree, self._settings.audit_path_count)
        return is_fresh and not self._roots.is_under_way(tree)

    def prepare(self, tree: str) -> None:
        """Look up the keepers of a tree unless that was done recently."""
        if not self._settings.region_size:
            self._roots.prepare(tree, self._settings.audit_path_count)
            return
        region = self._regions.get(tree)
        oldest_us = self._outbox.now - self._settings.renew_us
        if region is None or region.looked_us < oldest_us:
            self.look_up(tree)

    def look_up(self, tree: str) -> None:
        """Look up the keepers of a tree, unless that was done just now."""
        if not self._settings.region_size:
            self._roots.look_up(tree, self._settings.audit_path_count)
            return
        region = self._regions.get(tree)
        if region is None:
            region = self._regions[tree] = _Region()
        if self.is_under_way(tree) or self._outbox.now - region.looked_us < AGAIN_US:
            return
        region.looked_us = self._outbox.now
        self._waiting[tree] = None
        if self._spaced_us < self._outbox.now - self._settings.renew_us:
            if not self._under_way[_SPACING]:
                self._spacings = []
                for _ in range(RANDOM_PLACES):
                    name = b"spacing/" + self._rng.getrandbits(64).to_bytes(8, "big")
                    self._find(_SPACING, name, self._kademlia.settings.k)
        else:
            self._look_up_waiting()

    def _look_up_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for tree in waiting:
            region = self._regions.get(tree)
            self._find(tree, tree.encode(), FOUND_CLOSEST, self._settings.audit_path_count)
            outermost = self._outermost()
            for place, count in enumerate(FOUND_PER_BAND):
                self._find_in_band(tree, outermost - place, count)
            for place in range(region.wider if region is not None else 0):
                self._find_in_band(tree, outermost + 1 + place, FOUND_PER_BAND[0])

    def _find_in_band(self, tree: str, power: int, count: int) -> None:
        """Look up nodes whose distance from a tree's key is just below a power of two."""
        if 0 < power <= KEY_BITS:
            name = self._place(key_of(tree.encode()), 1 << (power - 1), (1 << power) - 1)
            if name is not None:
                self._find(tree, name, count)

    def _find(self, tree: str, name: bytes, count: int, paths: int = 1) -> None:
        self._under_way[tree] += 1
        then = partial(self._on_lookup_ended, tree)
        self._lookups.find_closest(name, then, count, paths=paths, waits_for_slow=False)

    def _on_lookup_ended(self, tree: str, found: Found) -> None:
        self._under_way[tree] -= 1
        if not self._under_way[tree]:
            del self._under_way[tree]
        if tree == _SPACING:
            self._on_spacing(found)
            return
        region = self._regions.get(tree)
        if region is None:
            return
        self._add(region, tree, found.closest)
        if not self.is_under_way(tree):
            self._forget_old(region)
            self._widen_if_sparse(region, tree)
        if not self.is_under_way(tree):
            self._on_found(tree)

    def _on_spacing(self, found: Found) -> None:
        """Take the spacing around a random place, unless the lookup was cut short.

        A lookup leaves out nodes that do not answer in time. Where it has found less than half of
        the nodes that it should, it does not show how far apart they are. If no lookup shows that,
        the node tries again at its next lookup of keepers, and relies on its own surroundings
        until then.
        """
        k, place = self._kademlia.settings.k, key_of(found.name)
        if len(self._kademlia.table) < k:
            self._spacings.append(_WHOLE)
        elif 2 * len(found.closest) >= k:
            # The network has at least the nodes of the table, whatever the lookup has missed.
            most = _WHOLE // len(self._kademlia.table)
            self._spacings.append(min(_spacing_around(found.closest, place), most))
        if not self._under_way[_SPACING]:
            if self._spacings:
                self._spacing, self._spaced_us = max(self._spacings), self._outbox.now
            self._look_up_waiting()

    def _add(self, region: _Region, tree: str, contacts: tuple[Contact, ...]) -> None:
        key, usual = key_of(tree.encode()), self._outermost()
        for contact in contacts:
            power = max((contact.key ^ key).bit_length(), _innermost(usual))
            if power > usual + region.wider:
                continue
            band = region.bands.setdefault(power, {})
            if contact.peer in band or len(band) < BAND_COUNT_MAX:
                band[contact.peer] = self._outbox.now

    def _widen_if_sparse(self, region: _Region, tree: str) -> None:
        """Look up a further band if there are few nodes outside the innermost one."""
        usual = self._outermost()
        outer = [band for power, band in region.bands.items() if power > _innermost(usual)]
        count = sum(not self._detector.is_banned(peer) for band in outer for peer in band)
        if count < self._settings.region_size and usual + region.wider < KEY_BITS:
            region.wider += 1
            self._find_in_band(tree, usual + region.wider, FOUND_PER_BAND[0])

    def _forget_old(self, region: _Region) -> None:
        oldest_us = self._outbox.now - 2 * self._settings.renew_us
        for power, band in list(region.bands.items()):
            region.bands[power] = {peer: us for peer, us in band.items() if us > oldest_us}
            if not region.bands[power]:
                del region.bands[power]

    # --- the size of a region ---

    def _outermost(self) -> int:
        """The power of two above the distances of the outermost usual band."""
        own, k = self._kademlia.own.key, self._kademlia.settings.k
        around = self._kademlia.table.closest(own, k)
        spacing = _WHOLE if len(around) < k else _spacing_around(around, own)
        spacing = max(spacing, self._spacing)
        return min((spacing * WIDER * self._settings.region_size).bit_length(), KEY_BITS)

    def _place(self, key: Key, least: Key, most: Key) -> bytes | None:
        """A name whose key has a distance between two limits from another key."""
        begin = b"region/" + key.to_bytes(KEY_BITS // 8, "big")
        for _ in range(_TRIES_MAX):
            name = begin + self._rng.getrandbits(64).to_bytes(8, "big")
            if least <= _hashed(name) ^ key <= most:
                return name
        return None

    def check(self) -> None:
        """Assert the invariants: bands are bounded, and waiting regions have a lookup."""
        for region in self._regions.values():
            assert all(len(band) <= BAND_COUNT_MAX for band in region.bands.values())
        assert not self._waiting or self._under_way[_SPACING]


def _innermost(usual: int) -> int:
    """The power of two above the distances in the innermost band of a region."""
    return max(0, usual - DEPTH)


def _spacing_around(closest: Sequence[Contact], place: Key) -> Key:
    """Estimate the distance between neighbouring nodes around a place.

    Divide the space around it into `PARTS` cells, and infer the number of nodes from the share of
    empty cells (linear counting): many ids in one cell count little more than one.
    """
    radius = closest[-1].key ^ place
    parts = len(dict.fromkeys(PARTS * (one.key ^ place) // (radius + 1) for one in closest))
    count = PARTS * -log(1 - parts / PARTS) if parts < PARTS else len(closest)
    return PRECISION * radius // max(PRECISION, round(PRECISION * min(count, len(closest))))
