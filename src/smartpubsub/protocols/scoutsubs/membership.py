"""This node's place in each attribute's tree: below a parent, or at the root as the rendezvous.

A node's parent is the known peer closest to the attribute's key, or one a little farther away if
that one is blamed for lost events. If a node knows no peer closer than itself, and its routing
table is not complete there, a lookup decides whether it is the root. A node that turns out to be
the closest first asks its neighbours what they know of the attribute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.blame import MISLED
from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact, Key, key_of
from smartpubsub.kademlia.queries import Found
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.runtime.lookups import Lookups
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.messages import Adopt, Pull, Pulled
from smartpubsub.protocols.scoutsubs.proximity import Proximity
from smartpubsub.protocols.scoutsubs.replicas import TableReplicas
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.timeouts import ResponseTimes
from smartpubsub.seam import Peer


class Role(Enum):
    """A node's role in a tree."""

    SEEKING = "seeking"
    CHILD = "child"
    SYNCING = "syncing"
    ROOT = "root"


ROLE_TRANSITIONS: dict[tuple[Role, str], Role] = {
    (Role.SEEKING, "closer peer found"): Role.CHILD,
    (Role.SEEKING, "no closer peer"): Role.SYNCING,
    (Role.SYNCING, "neighbours answered"): Role.ROOT,
    (Role.SYNCING, "closer peer found"): Role.CHILD,
    (Role.CHILD, "parent lost"): Role.SEEKING,
    (Role.CHILD, "closer peer found"): Role.CHILD,
    (Role.ROOT, "closer peer found"): Role.CHILD,
    (Role.ROOT, "parent lost"): Role.SEEKING,
    (Role.SYNCING, "parent lost"): Role.SEEKING,
    (Role.SEEKING, "parent lost"): Role.SEEKING,
}


VERIFIED_AT_ONCE_MAX = 16
"""How many lookups may be under way before the verification of another root waits."""
REDIRECTS_MAX = 32
REDIRECTS_US = 10 * SECOND
"""How many times within this time a node lets parents send it on to others. Honest parents send it
down the tree, which is far less deep."""


@dataclass(slots=True)
class TreePlace:
    """This node's place in one tree."""

    attribute: str
    key: Key
    used_us: int
    """When the tree was last needed."""
    role: Role = Role.SEEKING
    parent: Contact | None = None
    redirects: int = 0
    """How often parents have sent this node on to others since `redirected_us`."""
    redirected_us: int = -1 << 62

    def move(self, trigger: str) -> None:
        """Change the role along the table of transitions."""
        self.role = ROLE_TRANSITIONS[self.role, trigger]


class TreeAdded(NamedTuple):
    """The node has entered a tree and does not know its role yet."""

    attribute: str


class ParentChanged(NamedTuple):
    """The node has a new parent."""

    attribute: str
    parent: Contact
    former: Contact | None
    was_root: bool
    is_retry: bool
    """Whether the former parent was lost."""


class BecameRoot(NamedTuple):
    """The node is the rendezvous of an attribute; `answers` has the answers of its neighbours."""

    attribute: str
    answers: tuple[tuple[Peer, Pulled], ...]


MembershipNews: TypeAlias = TreeAdded | ParentChanged | BecameRoot


@dataclass(slots=True)
class _Sync:
    """The answers that a future rendezvous waits for, and those that it has."""

    waiting: dict[Peer, None]
    near: dict[Peer, None]
    """The neighbours that keep replicas, unless they are newcomers."""
    began_us: int
    tries: int = 1
    answers: list[tuple[Peer, Pulled]] = field(default_factory=list)
    expected: dict[Peer, None] = field(default_factory=dict)
    """Former roots, whose announcements are awaited."""

    def is_complete(self, *, is_known: bool) -> bool:
        """Whether all needed answers are there; farther neighbours count if no near one knows."""
        is_known = is_known or any(p.was_root or p.owner or p.records for _, p in self.answers)
        needed = self.near if is_known else self.waiting
        return not self.expected and not any(peer in self.waiting for peer in needed)


@dataclass(eq=False)
class TreeMembership:
    """The trees that this node is in."""

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _kademlia: Kademlia
    _lookups: Lookups
    _detector: FailureDetector
    _proximity: Proximity
    _times: ResponseTimes
    _replicas: TableReplicas
    _report: Callable[[MembershipNews], None]

    def __post_init__(self) -> None:
        self.trees: dict[str, TreePlace] = {}
        self._looked_up: list[str] = []
        """The attributes of the lookups that are under way."""
        self._unverified: dict[str, None] = {}
        """Trees in which this node has to verify that it still is the root."""
        self._is_verifying = False
        """Whether the loop that begins these lookups is running."""
        self._syncs: dict[str, _Sync] = {}

    def role(self, attribute: str) -> Role | None:
        """This node's role in a tree; None if it is not in it."""
        tree = self.trees.get(attribute)
        return None if tree is None else tree.role

    def is_root(self, attribute: str) -> bool:
        """Whether this node is the rendezvous of an attribute."""
        return self.role(attribute) is Role.ROOT

    def parent(self, attribute: str) -> Contact | None:
        """The parent in a tree; None if there is none."""
        tree = self.trees.get(attribute)
        return None if tree is None else tree.parent

    # --- entering and leaving a tree ---

    def join(self, attribute: str) -> TreePlace | None:
        """Enter a tree, unless the node is in it; None if it is in too many."""
        tree = self.trees.get(attribute)
        if tree is None:
            if len(self.trees) >= self._settings.tree_count_max:
                self._outbox.reject("trees")
                return None
            tree = TreePlace(attribute, key_of(attribute.encode()), self._outbox.now)
            self.trees[attribute] = tree
            self._report(TreeAdded(attribute))
            self._seek(tree)
        return tree

    def use(self, attribute: str) -> None:
        """Note that a tree is needed."""
        self.trees[attribute].used_us = self._outbox.now

    def leave(self, attribute: str) -> None:
        """Leave a tree that is not needed."""
        del self.trees[attribute]
        self._syncs.pop(attribute, None)

    # --- the parent ---

    def _seek(self, tree: TreePlace, *, is_retry: bool = False) -> None:
        """Find the parent, or become the root."""
        closer = self._proximity.parent_for(tree.attribute, self._outbox.now)
        if closer is not None:
            self._set_parent(tree, closer, is_retry=is_retry)
        elif self._kademlia.is_closest(tree.attribute.encode()) is None:
            self._look_up(tree)
        else:
            # The routing table proves it, or the closer peers are suspected.
            self._sync(tree)

    def lose_parent(self, attribute: str) -> None:
        """Look for another parent, as the current one is down."""
        tree = self.trees[attribute]
        self._syncs.pop(attribute, None)
        tree.move("parent lost")
        self._seek(tree, is_retry=True)

    def avoid_parent(self, attribute: str) -> None:
        """Move to another parent if the current one has much more blame."""
        parent, now = self.parent(attribute), self._outbox.now
        if parent is None or self.role(attribute) is not Role.CHILD:
            return
        other = self._proximity.parent_for(attribute, now)
        if other is not None and self._kademlia.blame.is_avoided(parent.peer, now, other.peer):
            self._set_parent(self.trees[attribute], other, is_retry=True)

    def redirect(self, attribute: str, parent: Contact) -> bool:
        """Move to the parent that the current one names; return whether the node does.

        The current one has kept no filters, so there is nothing to withdraw. Lying nodes can send
        this one to each other without end. So it ignores a redirect beyond the limit, blames the
        parent, and after a while repeats its announcement to this parent.
        """
        tree, now = self.trees[attribute], self._outbox.now
        if now - tree.redirected_us >= REDIRECTS_US:
            tree.redirects, tree.redirected_us = 0, now
        if tree.redirects >= REDIRECTS_MAX:
            assert tree.parent is not None
            self._kademlia.blame.put(tree.parent.peer, MISLED, now)
            self.avoid_parent(attribute)
            return False
        tree.redirects += 1
        tree.parent = None
        is_usable = self._proximity.is_closer(parent, attribute)
        if is_usable and not self._detector.is_suspected(parent.peer):
            tree.parent = parent
            return True
        self.lose_parent(attribute)
        return False

    def probe_parent(self, attribute: str) -> None:
        """Probe the parent, because a child could not reach a node closer to the root."""
        tree = self.trees[attribute]
        if tree.role is Role.CHILD and tree.parent is not None:
            self._detector.probe(tree.parent.peer)

    def check_root(self, attribute: str) -> None:
        """Step down as the root if a closer peer is known."""
        tree = self.trees[attribute]
        if tree.role in (Role.ROOT, Role.SYNCING):
            closer = self._proximity.closer(attribute)
            if closer is not None:
                self._set_parent(tree, closer)

    def on_rival(self, contact: Contact, attribute: str) -> None:
        """Step down if another node acts as the root and is closer to the key."""
        is_rival = self.role(attribute) in (Role.ROOT, Role.SYNCING)
        if is_rival and self._proximity.is_closer(contact, attribute):
            self._set_parent(self.trees[attribute], contact)

    def on_pull(self, contact: Contact, attribute: str) -> None:
        """Follow a closer peer that is about to become the root."""
        is_free = self.role(attribute) not in (None, Role.CHILD)
        if is_free and self._proximity.is_closer(contact, attribute):
            self._set_parent(self.trees[attribute], contact)

    def on_adopt(self, contact: Contact, part: Adopt) -> None:
        """Accept a node that has taken the place of a lost parent."""
        tree = self.trees.get(part.attribute)
        if tree is None or tree.role is not Role.CHILD or tree.parent is None:
            return
        if tree.parent.peer != part.instead_of:
            return
        if contact.peer == part.instead_of or self._detector.is_suspected(part.instead_of):
            if self._proximity.is_closer(contact, part.attribute):
                self._set_parent(tree, contact)
        else:
            self._detector.probe(part.instead_of)  # The sender may be wrong about it.

    def _set_parent(self, tree: TreePlace, parent: Contact, *, is_retry: bool = False) -> None:
        self._syncs.pop(tree.attribute, None)
        was_root, former = tree.role is Role.ROOT, tree.parent
        tree.move("closer peer found")
        tree.parent = parent
        self._report(ParentChanged(tree.attribute, parent, former, was_root, is_retry))

    # --- lookups ---

    def verify_root(self, attribute: str) -> None:
        """Verify by a lookup, in its turn, that this root is still the closest."""
        if self.is_root(attribute):
            self._unverified[attribute] = None
            self._verify_next()

    def _verify_next(self) -> None:
        """Begin the next lookups; a loop, as those of a node without peers end at once."""
        if self._is_verifying:
            return
        self._is_verifying = True
        while self._unverified and len(self._looked_up) < VERIFIED_AT_ONCE_MAX:
            attribute = next(iter(self._unverified))
            del self._unverified[attribute]
            if self.is_root(attribute) and attribute not in self._looked_up:
                self._look_up(self.trees[attribute])
        self._is_verifying = False

    def _look_up(self, tree: TreePlace) -> None:
        attribute = tree.attribute
        self._looked_up.append(attribute)
        self._lookups.find_closest(attribute.encode(), partial(self._on_found, attribute))

    def _on_found(self, attribute: str, found: Found) -> None:
        self._looked_up.remove(attribute)
        self._verify_next()
        tree = self.trees.get(attribute)
        if tree is None or tree.role not in (Role.SEEKING, Role.ROOT):
            return
        closest = [c for c in found.closest if not self._detector.is_suspected(c.peer)]
        if closest and closest[0].peer != self._proximity.own.peer:
            self._set_parent(tree, closest[0])
        elif tree.role is Role.SEEKING:
            self._sync(tree)

    # --- becoming the root ---

    def _sync(self, tree: TreePlace) -> None:
        tree.move("no closer peer")
        tree.parent = None
        # Newcomers may be the closest and know nothing, so ask more nodes than keep replicas.
        count = self._settings.backups + 1
        around = self._proximity.around(tree.attribute, 2 * count)
        near = self._proximity.around(tree.attribute, count)
        sync = _Sync(around, near, self._outbox.now)
        self._syncs[tree.attribute] = sync
        self._ask_neighbours(tree, sync)
        self._conclude_if_complete(tree)

    def _ask_neighbours(self, tree: TreePlace, sync: _Sync) -> None:
        for peer in sync.waiting:
            self._outbox.queue(peer, Pull(tree.attribute))
        self._outbox.set_timer(("sync", tree.attribute), self._times.timeout_us)

    def has_asked(self, attribute: str, peer: Peer) -> bool:
        """Whether this node is about to be the rendezvous and has asked a peer what it knows."""
        sync = self._syncs.get(attribute)
        if sync is None:
            return False
        return peer in sync.waiting or any(peer == other for other, _ in sync.answers)

    def on_pulled(self, contact: Contact, part: Pulled, *, is_child: bool) -> None:
        """Take the answer of a neighbour that was asked what it knows."""
        tree, sync = self.trees.get(part.attribute), self._syncs.get(part.attribute)
        if tree is None or sync is None or tree.role is not Role.SYNCING:
            return
        if part.was_root and self._proximity.is_closer(contact, part.attribute):
            self._set_parent(tree, contact)
            return
        if contact.peer not in sync.waiting:
            return
        del sync.waiting[contact.peer]
        sync.answers.append((contact.peer, part))
        if part.was_root and not is_child:
            sync.expected[contact.peer] = None
        self._conclude_if_complete(tree)

    def on_child_announced(self, attribute: str, peer: Peer) -> None:
        """Conclude if a child that has announced its filters is the last awaited former root."""
        sync = self._syncs.get(attribute)
        if sync is not None and sync.expected.pop(peer, 0) is None:
            self._conclude_if_complete(self.trees[attribute])

    def on_timer(self, attribute: str) -> None:
        """Ask the neighbours again that have not answered, or become the root without them."""
        tree, sync = self.trees.get(attribute), self._syncs.get(attribute)
        if tree is None or sync is None or tree.role is not Role.SYNCING:
            return
        sync.tries += 1
        # A suspected peer has left probes unanswered, so one more try is enough. A farther
        # neighbour most probably knows nothing.
        needed = [peer for peer in sync.waiting if peer in sync.near]
        are_suspected = all(map(self._detector.is_suspected, needed)) and not sync.expected
        if sync.tries <= self._settings.tries_max and not are_suspected:
            self._ask_neighbours(tree, sync)
            for peer in needed:
                # It may be up and not answer: it knows nodes that are closer than this one.
                self._detector.probe(peer)
            return
        passed_us = self._outbox.now - sync.began_us
        for peer in needed:
            if not self._detector.was_heard_within(peer, passed_us):
                self._detector.suspect(peer)
        self._become_root(tree)

    def _conclude_if_complete(self, tree: TreePlace) -> None:
        owner, _ = self._replicas.root_copy(tree.attribute)
        if self._syncs[tree.attribute].is_complete(is_known=bool(owner)):
            self._become_root(tree)

    def _become_root(self, tree: TreePlace) -> None:
        sync = self._syncs.pop(tree.attribute)
        self._outbox.cancel_timer(("sync", tree.attribute))
        tree.move("neighbours answered")
        self._report(BecameRoot(tree.attribute, tuple(sync.answers)))

    # --- invariants ---

    def check(self) -> None:
        """Assert the invariants: parents are closer to the key, so that trees have no cycles."""
        for attribute, tree in self.trees.items():
            assert tree.redirects <= REDIRECTS_MAX
            if tree.role is Role.CHILD:
                assert tree.parent is not None
                assert self._proximity.is_closer(tree.parent, attribute)
            if tree.role in (Role.SYNCING, Role.ROOT):
                assert tree.parent is None
            assert (attribute in self._syncs) == (tree.role is Role.SYNCING)
