"""Read-only views of a node's state, for tests, experiments and `sim route`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.scoutsubs.filter_table import FilterOwner, FilterTable, ScoutChild
from smartpubsub.protocols.scoutsubs.membership import Role
from smartpubsub.protocols.scoutsubs.messages import ChildCopy, Record
from smartpubsub.seam import Peer


class ChildView(NamedTuple):
    """A child in a tree, as its parent knows it."""

    contact: Contact
    incarnation: int
    version: int
    filters: tuple[Predicate, ...]
    shortcut: Contact | None
    backups: tuple[Contact, ...]
    epoch: int
    elsewhere: tuple[Predicate, ...]

    @classmethod
    def of(cls, child: ScoutChild) -> ChildView:
        """The view of a child."""
        return cls(
            child.contact,
            child.incarnation,
            child.version,
            tuple(child.filters),
            child.direct,
            child.backups,
            child.epoch,
            tuple(wanted for some in child.elsewhere.values() for wanted in some),
        )


class TreeView(NamedTuple):
    """This node's place in a tree, and its filter table there."""

    attribute: str
    role: Role
    parent: Contact | None
    own: Mapping[int, Predicate]
    """The node's own filters, by the number of the subscription."""
    children: Mapping[Peer, ChildView]
    members: tuple[Predicate, ...]
    summary: tuple[Predicate, ...]
    shortcut: Contact | None
    """The shortcut that is offered to the parent."""
    replicas: tuple[Contact, ...]
    version: int
    in_force: int
    copy_version: int
    copied_version: int
    """The version that all replicas have."""
    waiting: tuple[FilterOwner, ...]
    former: tuple[Peer, ...]
    is_handing_over: bool
    epoch: int
    claim: int
    """The shard epoch that the node would claim now."""

    @property
    def live_children(self) -> list[ChildView]:
        """The children that have filters."""
        return [child for child in self.children.values() if child.filters]

    @classmethod
    def of(
        cls,
        role: Role,
        parent: Contact | None,
        table: FilterTable,
        replicas: tuple[Contact, ...],
        copied_version: int,
        claim: int,
    ) -> TreeView:
        """The view of a tree."""
        return cls(
            table.attribute,
            role,
            parent,
            {number: predicate for number, (predicate, _) in table.own.items()},
            {peer: ChildView.of(child) for peer, child in table.children.items()},
            table.members(),
            table.summary(),
            table.direct,
            replicas,
            table.version,
            table.in_force,
            table.copy_version,
            copied_version,
            tuple(table.waiting),
            tuple(table.former),
            table.is_handing_over,
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
    history: tuple[tuple[str, int], ...]
    """The attributes with history, and the number of their events."""
