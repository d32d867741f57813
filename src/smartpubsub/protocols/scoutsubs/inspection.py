"""Read-only views of a node's state, for tests, experiments and `sim route`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.scoutsubs.filter_table import FilterTable
from smartpubsub.protocols.scoutsubs.membership import Role
from smartpubsub.protocols.scoutsubs.messages import ChildCopy, Record
from smartpubsub.seam import Peer


class TreeView(NamedTuple):
    """This node's place in a tree, and its filter table there."""

    attribute: str
    role: Role
    parent: Contact | None
    own: Mapping[int, Predicate]
    """The node's own filters, by the number of the subscription."""
    children: Mapping[Peer, ChildCopy]
    members: tuple[Predicate, ...]
    summary: tuple[Predicate, ...]
    shortcut: Contact | None
    """The shortcut that the node offers to its parent."""
    replicas: tuple[Contact, ...]
    version: int
    in_force: int
    epoch: int
    claim: int
    """The shard epoch that the node would claim now."""

    @property
    def live_children(self) -> list[ChildCopy]:
        """The children that have filters."""
        return [child for child in self.children.values() if child.filters]

    @classmethod
    def of(
        cls,
        role: Role,
        parent: Contact | None,
        table: FilterTable,
        replicas: tuple[Contact, ...],
        claim: int,
    ) -> TreeView:
        """The view of a tree."""
        return cls(
            table.attribute,
            role,
            parent,
            {number: predicate for number, (predicate, _) in table.own.items()},
            {peer: child.copy() for peer, child in table.children.items()},
            table.members(),
            table.summary(),
            table.shortcut,
            replicas,
            table.version,
            table.in_force,
            table.epoch,
            claim,
        )


class ScoutView(NamedTuple):
    """A node's state outside its trees."""

    trees: tuple[str, ...]
    """The names of the trees that the node is in."""
    replicas: Mapping[tuple[Peer, str], tuple[ChildCopy, ...]]
    """The tables that the node keeps for others, by owner and attribute."""
    records: tuple[Record, ...]
    """The events that the node has custody of, or keeps for others."""
    suspected: tuple[Peer, ...]
