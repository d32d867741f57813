"""The filters of one attribute at one node, and their summary for the parent.

The summary has a version that grows with every change. The parent acknowledges the version that it
has, and the version that is in force all the way up to the rendezvous.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.keys import Contact
from smartpubsub.matching import FilterSet, Index
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.scoutsubs.messages import WHOLE, Announce, ChildCopy
from smartpubsub.protocols.scoutsubs.shard_names import FIRST_EPOCH, NO_EPOCH
from smartpubsub.seam import Peer

CHANGES_KEPT = 64
FORMER_COUNT_MAX = 1_000

FilterOwner: TypeAlias = Peer | int
"""A child, or the number of one of the node's own subscriptions."""


class ChildState(Enum):
    """How far the last announcement of a child has come."""

    ENTERING = "entering"
    """The table does not have all of its filters yet."""
    PENDING = "pending"
    """The table has it; nodes above and replicas have not confirmed it."""
    IN_FORCE = "in force"


CHILD_TRANSITIONS: dict[tuple[ChildState, str], ChildState] = {
    (ChildState.ENTERING, "announcement"): ChildState.ENTERING,
    # An earlier announcement is in force.
    (ChildState.ENTERING, "in force"): ChildState.ENTERING,
    (ChildState.ENTERING, "last filter entered"): ChildState.PENDING,
    (ChildState.PENDING, "announcement"): ChildState.ENTERING,
    (ChildState.PENDING, "in force"): ChildState.IN_FORCE,
    (ChildState.IN_FORCE, "announcement"): ChildState.ENTERING,
}


@dataclass(slots=True, eq=False)
class ScoutChild:
    """A node below this one, and the filters that it has announced."""

    contact: Contact
    incarnation: int
    version: int
    heard_us: int
    filters: dict[Predicate, int] = field(default_factory=dict)
    """With the keys under which they are indexed."""
    shortcut: Contact | None = None
    """The shortcut: events may go to this node, past the child."""
    backups: tuple[Contact, ...] = ()
    """The replicas of the child's own table."""
    epoch: int = FIRST_EPOCH
    """The shard epoch up to which all filters in force below are in all shards."""
    elsewhere: dict[str, list[Predicate]] = field(default_factory=dict)
    """Filters that the child (or its shortcut) has in other trees, by one attribute of each."""
    in_force: int = 0
    """The latest of its versions that it knows to be in force; 0 for none."""
    state: ChildState = ChildState.ENTERING

    def move(self, trigger: str) -> None:
        """Go on along the table of transitions."""
        self.state = CHILD_TRANSITIONS[self.state, trigger]

    def copy(self) -> ChildCopy:
        """The child as a replica keeps it."""
        return ChildCopy(
            self.contact,
            self.incarnation,
            self.version,
            tuple(self.filters),
            self.shortcut,
            self.backups,
        )

    def gets_elsewhere(self, event: Predicate) -> bool:
        """Whether the child also gets an event by another tree."""
        for name in event.attributes:
            for wanted in self.elsewhere.get(name, ()):
                if wanted.matches(event):
                    return True
        return False


class FormerChild(NamedTuple):
    """A child that has moved to another parent, as it was then.

    An earlier event may still be on its way to it through this node.
    """

    filters: tuple[Predicate, ...]
    backups: tuple[Contact, ...]
    left_us: int


class AwaitedVersion(NamedTuple):
    """The versions that must be in force above and at all replicas before an owner is notified."""

    child_version: int
    """The child's own version, which the notification names."""
    version: int
    copy_version: int


class FilterChange(NamedTuple):
    """How a version of the summary differs from the one before."""

    version: int
    added: list[Predicate]
    removed: list[Predicate]


class Interested(NamedTuple):
    """The own subscriptions and the children that want an event."""

    own: tuple[int, ...]
    children: tuple[Peer, ...]


NONE_INTERESTED = Interested((), ())


class PeerQuotas:
    """The number of filters that each peer has at this node, in all tables together."""

    def __init__(self) -> None:
        self._filters: dict[Peer, int] = {}
        self._tables: dict[Peer, int] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def filters_of(self, peer: Peer) -> int:
        """The number of a peer's filters."""
        return self._filters.get(peer, 0)

    def tables_of(self, peer: Peer) -> int:
        """The number of tables that have filters of a peer."""
        return self._tables.get(peer, 0)

    def change(self, peer: Peer, before: int, after: int) -> None:
        """Change the number of a peer's filters in one table."""
        _add(self._filters, peer, after - before)
        _add(self._tables, peer, (after > 0) - (before > 0))


def _add(counts: dict[Peer, int], peer: Peer, difference: int) -> None:
    count = counts.get(peer, 0) + difference
    if count:
        counts[peer] = count
    else:
        counts.pop(peer, None)


class FilterTable:
    """The filters of one attribute: those of the node itself and those of its children."""

    def __init__(
        self,
        attribute: str,
        version: int = 0,
        copy_version: int = 0,
        quotas: PeerQuotas | None = None,
    ) -> None:
        self.attribute = attribute
        self.children: dict[Peer, ScoutChild] = {}
        self.former: BoundedDict[Peer, FormerChild] = BoundedDict(FORMER_COUNT_MAX)
        self.own: dict[int, tuple[Predicate, int]] = {}
        self.version = version
        """The version of the summary."""
        self.first_version = version
        """The first version that was announced to the current parent."""
        self.received = WHOLE
        """The version that the parent has."""
        self.in_force = version
        self.in_force_us = 0
        """When the whole summary was last known to be in force."""
        self.copy_version = copy_version
        """The version of the table for replicas."""
        self.waiting: dict[FilterOwner, AwaitedVersion] = {}
        """Owners to be notified, in the order of versions."""
        self.superseded: dict[Peer, AwaitedVersion] = {}
        """The earliest version that a child waits for, if it waits for a later one too."""
        self.shortcut: Contact | None = None
        """The shortcut that the node offers to the parent."""
        self.backups: tuple[Contact, ...] = ()
        """The replicas that the node names to the parent."""
        self.is_handing_over = False
        """Whether the node was the root until now and its summary is not yet in force above."""
        self.root_us = 0
        """When the node last became the root."""
        self.has_recent = False
        """Whether events were admitted here that a former root may have missed."""
        self.epoch = NO_EPOCH
        """The shard epoch of the attribute, as far as the node knows."""
        self.epoch_by: Peer | None = None
        """The parent that has told it."""
        self.claim = NO_EPOCH
        """The epoch that this node last claimed to its parent (`Filters.claim`)."""
        self.epoch_copy_version = 0
        """The first version for replicas that has the current epoch."""
        self._version_before = version
        self._changes: list[FilterChange] = []
        self._owners: dict[int, FilterOwner] = {}
        self._members = Index()
        self._shown = FilterSet()
        self._last_key = 0
        self._checked_epoch = NO_EPOCH
        self._quotas = PeerQuotas() if quotas is None else quotas

    @property
    def has_been_shown(self) -> bool:
        """Whether the node ever had a summary to announce."""
        return self.version > self._version_before

    @property
    def is_empty(self) -> bool:
        """Whether there are no filters."""
        return not self._owners

    @property
    def member_count(self) -> int:
        """The number of filters."""
        return len(self._owners)

    def live_children(self) -> list[ScoutChild]:
        """The children that have filters."""
        return [child for child in self.children.values() if child.filters]

    def members(self) -> tuple[Predicate, ...]:
        """All filters."""
        own = [predicate for predicate, _ in self.own.values()]
        return (*own, *(f for child in self.children.values() for f in child.filters))

    def summary(self) -> tuple[Predicate, ...]:
        """The filters that the node announces to the parent."""
        return tuple(self._shown.summary())

    def interested(self, event: Predicate) -> Interested:
        """The own subscriptions and the children that want an event."""
        matching = self._members.match(event)
        if not matching:
            return NONE_INTERESTED
        own: list[int] = []
        children: dict[Peer, None] = {}
        for key in sorted(matching):
            owner = self._owners[key]
            if isinstance(owner, int):
                own.append(owner)
            else:
                children[owner] = None
        return Interested(tuple(own), tuple(children))

    def former_interested(self, event: Predicate, since_us: int) -> dict[Peer, FormerChild]:
        """The children that have moved away since a time and want an event."""
        return {
            peer: former
            for peer, former in self.former.items()
            if former.left_us >= since_us
            and not (peer in self.children and self.children[peer].filters)
            and any(wanted.matches(event) for wanted in former.filters)
        }

    # --- changes ---

    def subscribe(self, number: int, predicate: Predicate) -> None:
        """Add a filter of the node's own."""
        self.own[number] = (predicate, self._add(number, predicate))
        self.copy_version += 1

    def unsubscribe(self, number: int) -> None:
        """Remove a filter of the node's own."""
        _, key = self.own.pop(number)
        self._remove(key)
        self.copy_version += 1

    def change_child(
        self, child: ScoutChild, added: Iterable[Predicate], removed: Iterable[Predicate]
    ) -> None:
        """Add and remove filters of a child."""
        before = len(child.filters)
        for predicate in removed:
            key = child.filters.pop(predicate, None)
            if key is not None:
                self._remove(key)
        for predicate in added:
            if predicate not in child.filters:
                child.filters[predicate] = self._add(child.contact.peer, predicate)
        self._quotas.change(child.contact.peer, before, len(child.filters))
        self.copy_version += 1

    def copies(self, own: Contact, incarnation: int, peers: Iterable[Peer]) -> list[ChildCopy]:
        """Some of the children as replicas keep them, and the node itself as one more child.

        For a node that takes this one's place, the own filters are those of a child.
        """
        found = []
        for peer in peers:
            child = self.children.get(peer)
            if child is not None and child.filters:
                found.append(child.copy())
            elif peer == own.peer and self.own:
                wanted = tuple(dict.fromkeys(predicate for predicate, _ in self.own.values()))
                found.append(ChildCopy(own, incarnation, self.version, wanted, None, ()))
        return found

    def restore(self, copy: ChildCopy, now: int, child_count_max: int) -> bool:
        """Add a child from a copy, unless the table is full or has this version or a later one."""
        peer = copy.contact.peer
        known = self.children.get(peer)
        if known is not None:
            known_version = known.incarnation, known.version
            copy_version = copy.incarnation, copy.version
            # A child withdraws its filters from here by the version that its next parent has.
            was_withdrawn = not known.filters and known_version == copy_version
            if known_version >= copy_version and not was_withdrawn:
                return False
            self.drop_child(peer)
        elif len(self.children) >= child_count_max:
            return False
        child = ScoutChild(copy.contact, copy.incarnation, copy.version, now, backups=copy.backups)
        child.state = ChildState.PENDING if peer in self.waiting else ChildState.IN_FORCE
        self.children[peer] = child
        self.change_child(child, copy.filters, ())
        return True

    def remember_former(self, child: ScoutChild, now: int) -> None:
        """Remember a child that has moved to another parent."""
        self.former[child.contact.peer] = FormerChild(tuple(child.filters), child.backups, now)

    def drop_child(self, peer: Peer) -> None:
        """Remove a child and its filters."""
        child = self.children.pop(peer)
        self.superseded.pop(peer, None)
        self.change_child(child, (), list(child.filters))

    def _add(self, owner: FilterOwner, predicate: Predicate) -> int:
        self._last_key += 1
        self._owners[self._last_key] = owner
        self._members.add(self._last_key, predicate)
        self._shown.add(self._last_key, predicate)
        return self._last_key

    def _remove(self, key: int) -> None:
        del self._owners[key]
        self._members.remove(key)
        self._shown.remove(key)

    # --- the summary ---

    def advance(self, backups: tuple[Contact, ...], claim: int, *, offers_shortcut: bool) -> bool:
        """Begin a new version if the summary, the shortcut, the replicas or the claim changed."""
        added, removed = self._shown.changes()
        shortcut = self._only_child() if offers_shortcut else None
        is_same = (shortcut, backups, claim) == (self.shortcut, self.backups, self.claim)
        if not added and not removed and is_same:
            return False
        self.shortcut, self.backups, self.claim = shortcut, backups, claim
        self._begin_version(added, removed)
        return True

    def begin_anew(self) -> None:
        """Begin a version without a change: a new parent may know an earlier withdrawal."""
        if self.has_been_shown:
            self._begin_version([], [])
        self.first_version = self.version

    def _begin_version(self, added: list[Predicate], removed: list[Predicate]) -> None:
        self.version += 1
        self._changes.append(FilterChange(self.version, added, removed))
        del self._changes[:-CHANGES_KEPT]

    def _only_child(self) -> Contact | None:
        """The only child with filters (or its shortcut), if the node itself has none."""
        if self.own:
            return None
        live = self.live_children()
        return (live[0].shortcut or live[0].contact) if len(live) == 1 else None

    def announcement(self, incarnation: int, root_ms: int, *, is_retry: bool) -> Announce:
        """The changes that the parent lacks, or the whole summary if they are forgotten."""
        base = self.received
        first = self._changes[0].version if self._changes else self.version + 1
        if base == WHOLE or base + 1 < first:
            base, added, removed = WHOLE, self._shown.summary(), list[Predicate]()
        else:
            added, removed = self._changes_since(base)
        return Announce(
            self.attribute,
            incarnation,
            self.version,
            base,
            tuple(added),
            tuple(removed),
            self.shortcut,
            self.backups,
            is_retry,
            root_ms=root_ms,
            epoch=self.claim,
        )

    def _changes_since(self, base: int) -> tuple[list[Predicate], list[Predicate]]:
        added: dict[Predicate, None] = {}
        removed: dict[Predicate, None] = {}
        for change in self._changes:
            if change.version <= base:
                continue
            for predicate in change.removed:
                if added.pop(predicate, 0) == 0:
                    removed[predicate] = None
            for predicate in change.added:
                if removed.pop(predicate, 0) == 0:
                    added[predicate] = None
        return list(added), list(removed)

    # --- invariants ---

    def check(self) -> None:
        """Assert the invariants: the index agrees with the filters that it indexes."""
        owners: dict[int, FilterOwner] = {key: number for number, (_, key) in self.own.items()}
        for peer, child in self.children.items():
            assert child.contact.peer == peer
            is_entering = child.state is ChildState.ENTERING
            assert is_entering or (child.state is ChildState.PENDING) == (peer in self.waiting)
            owners |= dict.fromkeys(child.filters.values(), peer)
        assert owners == self._owners
        assert max(self.received, self.first_version) <= self.version
        assert self._checked_epoch <= self.epoch, "shard epochs only grow"
        self._checked_epoch = self.epoch
        assert all(
            wait.version <= self.version and wait.copy_version <= self.copy_version
            for wait in self.waiting.values()
        )
        assert all(peer in self.waiting and peer in self.children for peer in self.superseded)
