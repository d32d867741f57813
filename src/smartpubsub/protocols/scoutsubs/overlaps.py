"""Overlaps: the filters of a node in other trees, which it tells its parent in a tree.

A node with filters in several trees would get an event that matches in two of them twice. So it
tells its parent in a tree which filters it has in other trees (overlaps), and the parent offers it
such an event instead of sending it. A node names only filters in trees that come earlier in an
order that all nodes share, so one of the trees always carries the event itself. A parent's
knowledge may be out of date: at worst an event comes twice, or has to be requested.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from smartpubsub.kademlia.keys import key_of
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.filter_table import FilterTable
from smartpubsub.protocols.scoutsubs.membership import Role, TreeMembership
from smartpubsub.protocols.scoutsubs.messages import Elsewhere
from smartpubsub.protocols.scoutsubs.shard_names import base_name, is_split
from smartpubsub.seam import Peer

ELSEWHERE_COUNT_MAX = 64
"""How many filters in other trees a node announces to a parent."""
TREES_ANNOUNCED_MAX = 64
"""In how many trees a node announces overlaps: those of own subscriptions first."""
MEMBER_COUNT_MAX = 1_000
"""A node names no filters of larger tables in other trees: finding them would take long."""
DELAY_US = 50_000
INTERVAL_US = 250_000
"""A node announces overlaps this long after a change, and at most once in this interval."""


@dataclass(eq=False)
class Overlaps:
    """The filters in other trees that this node has announced to its parents."""

    _outbox: ScoutOutbox
    _membership: TreeMembership
    _tables: dict[str, FilterTable]

    def __post_init__(self) -> None:
        self._announced: dict[str, tuple[Peer, tuple[Predicate, ...]]] = {}
        """By tree: the parent, and the overlaps announced to it."""
        self._is_due = False
        self._announced_us = -INTERVAL_US

    def forget(self, attribute: str) -> None:
        """Forget a tree that the node leaves."""
        self._announced.pop(attribute, None)

    def schedule(self) -> None:
        """Announce the overlaps to the parents after a short delay."""
        if not self._is_due:
            self._is_due = True
            earliest_us = self._announced_us + INTERVAL_US - self._outbox.now
            self._outbox.set_timer(("overlaps",), max(DELAY_US, earliest_us))

    def announce(self) -> None:
        """Announce changed overlaps to the parents."""
        self._is_due = False
        self._announced_us = self._outbox.now
        others: tuple[Predicate, ...] = ()
        tables = self._tables_with_parents()
        for base, group in groupby(tables, lambda table: base_name(table.attribute)):
            shown: tuple[Predicate, ...] = ()
            for table in group:
                overlaps = others if table.shortcut is None else _overlaps_of_only_child(table)
                self._announce_to_parent(table.attribute, overlaps)
                if table.attribute == base and len(others) < ELSEWHERE_COUNT_MAX:
                    shown = _shown_elsewhere(table)
            others = (*others, *shown)[:ELSEWHERE_COUNT_MAX]

    def announce_again(self, attribute: str) -> None:
        """Announce the overlaps to the parent of a tree again, as it may not know them."""
        self._announced.pop(attribute, None)
        self.schedule()

    def _tables_with_parents(self) -> list[FilterTable]:
        """Tables whose events come from a parent, in the order that all nodes share.

        Other nodes decide how many trees this one relays in, so it looks at a limited number.
        """
        trees = self._membership.trees.values()
        below = [t.attribute for t in trees if t.role is Role.CHILD and t.parent]
        tables = [table for name in below if not (table := self._tables[name]).is_empty]
        if len(tables) > TREES_ANNOUNCED_MAX:
            tables = sorted(tables, key=lambda table: not table.own)[:TREES_ANNOUNCED_MAX]
        return sorted(
            tables,
            key=lambda table: (key_of(base_name(table.attribute).encode()), table.attribute),
        )

    def _announce_to_parent(self, attribute: str, others: tuple[Predicate, ...]) -> None:
        contact = self._membership.parent(attribute)
        assert contact is not None
        parent = contact.peer
        if self._announced.get(attribute, (parent, ())) != (parent, others):
            self._outbox.queue(parent, Elsewhere(attribute, others))
        self._announced[attribute] = (parent, others)

    def on_elsewhere(self, peer: Peer, part: Elsewhere) -> None:
        """Take the filters that a child has in other trees."""
        table = self._tables.get(part.attribute)
        child = table.children.get(peer) if table else None
        if child is not None:
            child.elsewhere = {}
            for wanted in part.others[:ELSEWHERE_COUNT_MAX]:
                child.elsewhere.setdefault(next(iter(wanted.attributes)), []).append(wanted)
            if table is not None and table.shortcut is not None:
                self.schedule()

    def check(self) -> None:
        """Assert the invariant: overlaps are announced only in trees of this node."""
        assert self._announced.keys() <= self._tables.keys()


def _shown_elsewhere(table: FilterTable) -> tuple[Predicate, ...]:
    """The filters of a table that the node announces to its parents in other trees."""
    # With a shortcut past this node, events do not reach it.
    if table.shortcut is not None or table.member_count > MEMBER_COUNT_MAX:
        return ()
    if is_split(table.epoch):  # Each shard has other nodes below this one.
        return tuple(dict.fromkeys(wanted for wanted, _ in table.own.values()))
    return table.summary()


def _overlaps_of_only_child(table: FilterTable) -> tuple[Predicate, ...]:
    """The overlaps of the node that the shortcut leads to.

    Empty while the filters of another child are being added, after which the shortcut ends.
    """
    live = table.live_children()
    if len(live) != 1:
        return ()
    return tuple(wanted for some in live[0].elsewhere.values() for wanted in some)
