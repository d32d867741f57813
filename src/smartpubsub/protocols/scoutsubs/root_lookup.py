"""The nodes that may be the rendezvous of a tree, by this node's own lookups.

A publisher accepts an acknowledgement only from a node that its own lookup has found among the
2f + 1 closest to the key. The lookup follows disjoint paths, so that a lying node misleads only one
of them. It does not wait for slow nodes. If all nodes around are busy, one of these may be the
rendezvous; so a known node that is closer than the farthest found one also counts as found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.queries import Found
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.lookups import Lookups
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Peer

PATHS = 2
AGAIN_US = 2 * SECOND
"""The shortest time from the end of a lookup to the next one for the same tree."""
TREE_COUNT_MAX = 1_000


@dataclass(slots=True)
class _FoundRoots:
    """The result of the last lookup for a tree."""

    closest: tuple[Contact, ...] = ()
    peers: dict[Peer, None] = field(default_factory=dict)
    found_us: int = -1 << 62
    paths: int = 0
    """How many disjoint paths the lookup followed."""


@dataclass(eq=False)
class RootLookup:
    """Looks up trees that this node publishes to; `on_found` is called with each tree's name."""

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _lookups: Lookups
    _on_found: Callable[[str], None]

    def __post_init__(self) -> None:
        self._found: BoundedDict[str, _FoundRoots] = BoundedDict(TREE_COUNT_MAX)
        self._under_way: dict[str, None] = {}
        """The trees that are being looked up."""

    @property
    def _count(self) -> int:
        return 2 * self._settings.backups + 1

    def has_found(self, tree: str, peer: Peer) -> bool:
        """Whether a lookup on disjoint paths has found a peer among the closest to a tree's key."""
        found = self._found.get(tree)
        return found is not None and found.paths >= PATHS and peer in found.peers

    def would_find(self, tree: str, contact: Contact) -> bool:
        """Whether a peer would be among the closest if it had answered the lookup of a tree."""
        found = self._found.get(tree)
        return found is not None and found.paths >= PATHS and self.reaches(tree, contact)

    def reaches(self, tree: str, contact: Contact) -> bool:
        """Whether a peer is as close to a tree's key as the nodes that the lookup has found.

        The result of a lookup ends with this node if all others are closer.
        """
        found = self._found.get(tree)
        if found is None:
            return False
        key, closest = key_of(tree.encode()), found.closest[: self._count]
        is_short = len(closest) < self._count
        return is_short or contact.key ^ key < closest[-1].key ^ key

    def found(self, tree: str) -> list[Peer]:
        """The peers that the last lookup has found, the closest first."""
        found = self._found.get(tree)
        return [] if found is None else [*found.peers]

    def prepare(self, tree: str, paths: int = PATHS) -> None:
        """Look a tree up before its acknowledgement arrives, unless that was done recently."""
        if not self.is_fresh(tree, paths):
            self.look_up(tree, paths)

    def is_fresh(self, tree: str, paths: int) -> bool:
        """Whether a tree was looked up recently, on at least this many paths."""
        found = self._found.get(tree)
        oldest_us = self._outbox.now - self._settings.renew_us
        return found is not None and found.found_us >= oldest_us and found.paths >= paths

    def is_under_way(self, tree: str) -> bool:
        """Whether a tree is being looked up."""
        return tree in self._under_way

    def look_up(self, tree: str, paths: int = PATHS) -> bool:
        """Look a tree up, unless that was done just now; return whether a lookup is under way."""
        if self.is_under_way(tree):
            return True
        found = self._found.get(tree)
        is_recent = found is not None and self._outbox.now - found.found_us < AGAIN_US
        if found is not None and is_recent and found.paths >= paths:
            return False
        self._under_way[tree] = None
        self._lookups.find_closest(
            tree.encode(),
            partial(self._on_lookup_ended, tree, paths),
            self._count,
            paths=paths,
            waits_for_slow=False,
        )
        return self.is_under_way(tree)

    def _on_lookup_ended(self, tree: str, paths: int, found: Found) -> None:
        del self._under_way[tree]
        peers = dict.fromkeys(contact.peer for contact in found.closest)
        self._found[tree] = _FoundRoots(found.closest, peers, self._outbox.now, paths)
        self._on_found(tree)

    def check(self) -> None:
        """Assert the invariants: results are of the right size."""
        assert len(self._found) <= TREE_COUNT_MAX
        for found in self._found.values():
            assert len(found.peers) <= 2 * self._settings.backups + 2
