"""Shard epochs: whether an attribute is split, as far as each node of its tree knows.

Epochs travel with announcements: a parent tells its children the epoch of the attribute, and a
child claims the epoch up to which all filters below it are in all shards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.filter_table import FilterTable
from smartpubsub.protocols.scoutsubs.membership import TreeMembership
from smartpubsub.protocols.scoutsubs.persistence import Persistence
from smartpubsub.protocols.scoutsubs.shard_names import (
    EPOCH_MAX,
    FIRST_EPOCH,
    NO_EPOCH,
    base_name,
    is_split,
)

EPOCHS_AT_ONCE_MAX = 1 << 20
"""A child whose epoch is ahead of its rendezvous by more than this is lying."""


@dataclass(eq=False)
class ShardEpochs:
    """The epochs in the tables of this node; `on_changed` is called with a table after a change."""

    _outbox: ScoutOutbox
    _persistence: Persistence
    _membership: TreeMembership
    _tables: dict[str, FilterTable]
    _on_changed: Callable[[FilterTable], None]

    def __post_init__(self) -> None:
        self._lagging: dict[str, None] = {}
        """Attributes with own subscriptions that are in force but not in all shards yet."""

    def of(self, attribute: str) -> int:
        """The shard epoch of an attribute, as far as this node knows."""
        table = self._tables.get(attribute)
        return NO_EPOCH if table is None else table.epoch

    def set_lagging(self, attribute: str, *, is_lagging: bool) -> None:
        """Note whether own subscriptions in force are not in all shards yet."""
        if is_lagging:
            self._lagging[attribute] = None
        else:
            self._lagging.pop(attribute, None)

    def claim(self, attribute: str) -> int:
        """Return the shard epoch up to which all filters here and below are in every shard.

        If some nodes below are split and others are not, it is `FIRST_EPOCH`: the others have left
        the shards.
        """
        table = self._tables[attribute]
        if table.epoch == FIRST_EPOCH:
            return FIRST_EPOCH
        claims = [child.epoch for child in table.live_children() if child.epoch != NO_EPOCH]
        if attribute in self._lagging:
            claims.append(max(FIRST_EPOCH, table.epoch - 1))
        if table.epoch != NO_EPOCH:
            claims.append(table.epoch)
        lowest = min(claims, default=NO_EPOCH)
        has_left = is_split(lowest) and not all(map(is_split, claims))
        return FIRST_EPOCH if has_left else lowest

    def set_epoch(self, attribute: str, epoch: int) -> None:
        """Take a later epoch of an attribute; the tree of a further shard is never split."""
        table = self._tables[attribute]
        if base_name(attribute) != attribute:
            epoch = min(epoch, FIRST_EPOCH)
        if not table.epoch < epoch <= EPOCH_MAX:
            return
        had_epoch = table.epoch != NO_EPOCH
        table.epoch = epoch
        if table.claim == NO_EPOCH and epoch == FIRST_EPOCH:
            table.claim = epoch  # The parent that has told it assumes this claim.
        if is_split(epoch) or had_epoch:
            self._persistence.keep_epoch(attribute, epoch)
            self._on_changed(table)

    def on_parent_epoch(self, table: FilterTable, epoch: int) -> None:
        """Take the epoch of the parent.

        After failures, it can be earlier than one that other nodes have told. The nodes above may
        then send events down the shards, so this node has to be in them.
        """
        contact = self._membership.parent(table.attribute)
        parent = contact.peer if contact else None
        if epoch >= table.epoch:
            table.epoch_by = parent
        elif is_split(epoch) and not is_split(table.epoch) and table.epoch_by != parent:
            table.epoch_by, epoch = parent, table.epoch + 1
        self.set_epoch(table.attribute, epoch)

    def on_child_epoch(self, attribute: str, epoch: int) -> None:
        """Take an epoch that a child knows and this rendezvous, if it is new, does not.

        It must not make other nodes leave the shards, as events may be under way there.
        """
        table = self._tables[attribute]
        if not self._membership.is_root(attribute) or epoch <= table.epoch:
            return
        if epoch - table.epoch > EPOCHS_AT_ONCE_MAX:
            self._outbox.reject("epochs")
            return
        is_merged = is_split(table.epoch) and not is_split(epoch)
        self.set_epoch(attribute, epoch + 1 if is_merged else epoch)
