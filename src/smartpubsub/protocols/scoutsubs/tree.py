"""The tree of one attribute, as one node sees it: whose filters it keeps, and what it shows above.

Everything is per attribute. What a node shows to its parent is the summary of all filters below it,
under a version that grows with every change; the parent says which version it has, and which one is
in force all the way up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.matching import FilterSet, Index
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.scoutsubs.branches import UNTOLD
from smartpubsub.protocols.scoutsubs.child import Child, Former
from smartpubsub.protocols.scoutsubs.holdings import Holdings
from smartpubsub.protocols.scoutsubs.messages import WHOLE, Announce, ChildCopy, Raise
from smartpubsub.seam import Peer


class Role(Enum):
    """What a node is in a tree."""

    SEEKING = "seeking"
    CHILD = "child"
    SYNCING = "syncing"
    ROOT = "root"


TRANSITIONS: dict[tuple[Role, str], Role] = {
    (Role.SEEKING, "somebody closer is there"): Role.CHILD,
    (Role.SEEKING, "nobody closer is there"): Role.SYNCING,
    (Role.SYNCING, "what others know is here"): Role.ROOT,
    (Role.SYNCING, "somebody closer is there"): Role.CHILD,
    (Role.CHILD, "parent lost"): Role.SEEKING,
    (Role.CHILD, "somebody closer is there"): Role.CHILD,
    (Role.ROOT, "somebody closer is there"): Role.CHILD,
    (Role.ROOT, "parent lost"): Role.SEEKING,
    (Role.SYNCING, "parent lost"): Role.SEEKING,
    (Role.SEEKING, "parent lost"): Role.SEEKING,
}

Owner: TypeAlias = Peer | int
"""Whose filter it is: a child's, or the subscription's with this number."""


class Wait(NamedTuple):
    """What has to be in force above, and held by all backups, before somebody is told."""

    told_version: int
    """The child's version, which is what it is told."""
    version: int
    copy_version: int


class Change(NamedTuple):
    """How a version differs from the one before."""

    version: int
    added: list[Predicate]
    removed: list[Predicate]


class Interested(NamedTuple):
    """Who wants an event: own subscriptions, and children."""

    own: tuple[int, ...]
    children: tuple[Peer, ...]


CHANGES_KEPT = 64
RECENT_COUNT_MAX = 200
FORMER_COUNT_MAX = 1_000


class Tree:
    """One node's part of the tree of one attribute."""

    def __init__(
        self,
        attribute: str,
        version: int = 0,
        copy_version: int = 0,
        holdings: Holdings | None = None,
    ) -> None:
        self.attribute = attribute
        self.name = attribute.encode()
        self.key = key_of(self.name)
        self.role = Role.SEEKING
        self.parent: Contact | None = None
        self.children: dict[Peer, Child] = {}
        self.former: dict[Peer, Former] = {}
        """Children that have moved away, those that did so first before the others."""
        self.own: dict[int, tuple[Predicate, int]] = {}
        self.version = version
        """Of what is shown above."""
        self.first_version = version
        """From which version on the present parent has been told anything."""
        self.received = WHOLE
        """Up to which version the parent has it."""
        self.in_force = version
        self.in_force_us = 0
        """When all of it was last known to be in force."""
        self.copy_version = copy_version
        """Of the children, as backups keep them."""
        self.waiting: dict[Owner, Wait] = {}
        """By whom it is for, in the order of versions."""
        self.direct: Contact | None = None
        """The shortcut that is offered to the parent."""
        self.backups: tuple[Contact, ...] = ()
        """Who keeps a copy, as the parent is told."""
        self.is_handing_over = False
        """Whether it was the root until now and what is above is not yet in force."""
        self.root_us = 0
        """When it last became the root."""
        self.recent: deque[tuple[Raise, int]] = deque(maxlen=RECENT_COUNT_MAX)
        """What was admitted here last, and when it was published, for another rendezvous that may
        have to have it too."""
        self.used_us = 0
        """When anything was last wanted of it."""
        self.stage = UNTOLD
        """Whether the attribute is split (`branches.py`), as far as the node has been told."""
        self.stage_by: Peer | None = None
        """The parent that has told it."""
        self.claim = UNTOLD
        """Up to which stage all below is in the branches, as the parent is told."""
        self.stage_copy_version = 0
        """The first version of copies that the present stage is in."""
        self._version_before = version
        self._changes: list[Change] = []
        self._owners: dict[int, Owner] = {}
        self._members = Index()
        self._shown = FilterSet()
        self._last_key = 0
        self._holdings = Holdings() if holdings is None else holdings

    @property
    def acts_as_root(self) -> bool:
        """Whether it keeps what a rendezvous keeps: it is one, or was until another has it all."""
        return self.role is Role.ROOT or self.is_handing_over

    @property
    def has_been_shown(self) -> bool:
        """Whether there ever was anything to be shown above."""
        return self.version > self._version_before

    @property
    def is_idle(self) -> bool:
        """Whether nobody wants anything here, or waits for anything."""
        nobody = not self._owners and not self.children and not self.waiting
        return nobody and (self.is_in_force or not self.has_been_shown)

    @property
    def is_in_force(self) -> bool:
        """Whether everything that is shown above is in force there."""
        return self.role is Role.ROOT or self.in_force >= self.version

    @property
    def is_empty(self) -> bool:
        """Whether nobody wants anything here."""
        return not self._owners

    @property
    def member_count(self) -> int:
        """How many filters are kept."""
        return len(self._owners)

    def live_children(self) -> list[Child]:
        """Children that have filters."""
        return [child for child in self.children.values() if child.filters]

    def members(self) -> tuple[Predicate, ...]:
        """All filters that are kept."""
        own = [predicate for predicate, _ in self.own.values()]
        return (*own, *(f for child in self.children.values() for f in child.filters))

    def summary(self) -> tuple[Predicate, ...]:
        """The filters that are shown above."""
        return tuple(self._shown.summary())

    def move(self, happening: str) -> None:
        """Change the role, as the table of transitions has it."""
        self.role = TRANSITIONS[self.role, happening]

    def interested(self, event: Predicate) -> Interested:
        """Who wants an event."""
        own: list[int] = []
        children: dict[Peer, None] = {}
        for key in sorted(self._members.match(event)):
            owner = self._owners[key]
            if isinstance(owner, int):
                own.append(owner)
            else:
                children[owner] = None
        return Interested(tuple(own), tuple(children))

    # --- changes ---

    def subscribe(self, number: int, predicate: Predicate) -> None:
        """Keep a filter of the node's own."""
        self.own[number] = (predicate, self._keep(number, predicate))
        self.copy_version += 1

    def unsubscribe(self, number: int) -> None:
        """Forget a filter of the node's own."""
        _, key = self.own.pop(number)
        self._forget(key)
        self.copy_version += 1

    def change_child(
        self, child: Child, added: Iterable[Predicate], removed: Iterable[Predicate]
    ) -> None:
        """Keep and forget filters of a child."""
        before = len(child.filters)
        for predicate in removed:
            key = child.filters.pop(predicate, None)
            if key is not None:
                self._forget(key)
        for predicate in added:
            if predicate not in child.filters:
                child.filters[predicate] = self._keep(child.contact.peer, predicate)
        self._holdings.change(child.contact.peer, before, len(child.filters))
        self.copy_version += 1

    def copies(self, own: Contact, incarnation: int, peers: Iterable[Peer]) -> list[ChildCopy]:
        """What backups keep of some of the children, and of the node's own filters,

        which are those of one more child to whoever takes the node's place.
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
        """Take a child from a copy, unless there is no room or something newer is known of it."""
        peer = copy.contact.peer
        known = self.children.get(peer)
        if known is not None:
            if (known.incarnation, known.version) >= (copy.incarnation, copy.version):
                return False
            self.drop_child(peer)
        elif len(self.children) >= child_count_max:
            return False
        child = Child(copy.contact, copy.incarnation, copy.version, now, backups=copy.backups)
        self.children[peer] = child
        self.change_child(child, copy.filters, ())
        return True

    def let_go(self, child: Child, now: int) -> None:
        """Remember a child that has moved to another parent."""
        peer = child.contact.peer
        self.former.pop(peer, None)
        self.former[peer] = Former(tuple(child.filters), child.backups, now)
        if len(self.former) > FORMER_COUNT_MAX:
            del self.former[next(iter(self.former))]

    def former_interested(self, event: Predicate, since_us: int) -> dict[Peer, Former]:
        """Those of the children that have moved away since a time who want an event."""
        return {
            peer: former
            for peer, former in self.former.items()
            if former.left_us >= since_us
            and not (peer in self.children and self.children[peer].filters)
            and any(wanted.matches(event) for wanted in former.filters)
        }

    def drop_child(self, peer: Peer) -> None:
        """Forget a child and all its filters."""
        child = self.children.pop(peer)
        self.change_child(child, (), list(child.filters))

    def _keep(self, owner: Owner, predicate: Predicate) -> int:
        self._last_key += 1
        self._owners[self._last_key] = owner
        self._members.add(self._last_key, predicate)
        self._shown.add(self._last_key, predicate)
        return self._last_key

    def _forget(self, key: int) -> None:
        del self._owners[key]
        self._members.remove(key)
        self._shown.remove(key)

    # --- what is shown above ---

    def advance(self, backups: tuple[Contact, ...], claim: int, *, redirects: bool) -> bool:
        """Take note of what has changed in what is shown; whether there is a new version."""
        added, removed = self._shown.changes()
        direct = self._only_child() if redirects and self.role is not Role.ROOT else None
        is_same = (direct, backups, claim) == (self.direct, self.backups, self.claim)
        if not added and not removed and is_same:
            return False
        self.direct, self.backups, self.claim = direct, backups, claim
        self.version += 1
        self._changes.append(Change(self.version, added, removed))
        del self._changes[:-CHANGES_KEPT]
        return True

    def begin_anew(self) -> None:
        """Have a new version without a change, for a parent that may have been told farewell."""
        if self.has_been_shown:
            self.version += 1
            self._changes.append(Change(self.version, [], []))
        self.first_version = self.version

    def _only_child(self) -> Contact | None:
        """The one that all that is below comes from, if the node itself wants nothing."""
        if self.own:
            return None
        live = self.live_children()
        return (live[0].direct or live[0].contact) if len(live) == 1 else None

    def announcement(self, incarnation: int, root_ms: int, *, is_retry: bool) -> Announce:
        """What the parent does not have yet: changes if they are remembered, or everything."""
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
            self.direct,
            self.backups,
            is_retry,
            root_ms=root_ms,
            stage=self.claim,
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
