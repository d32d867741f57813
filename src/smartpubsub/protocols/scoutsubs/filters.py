"""Filters on their way up: announced from child to parent, and acknowledged on the way down.

A child announces the changes since the version that its parent has. The parent adds them to its
table, has the table replicated, announces the changes of its own summary, and notifies the child
when all of that is in force. One announcement is under way at a time; later changes go with the
next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.scoutsubs.announcement_turns import (
    AT_ONCE_MAX,
    STEP,
    AnnouncementTurns,
    LongAnnouncement,
)
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.epochs import ShardEpochs
from smartpubsub.protocols.scoutsubs.filter_table import (
    AwaitedVersion,
    ChildState,
    FilterOwner,
    FilterTable,
    PeerQuotas,
    ScoutChild,
)
from smartpubsub.protocols.scoutsubs.membership import Role, TreeMembership
from smartpubsub.protocols.scoutsubs.messages import (
    WHOLE,
    Announce,
    Announced,
    ChildCopy,
)
from smartpubsub.protocols.scoutsubs.overlaps import Overlaps
from smartpubsub.protocols.scoutsubs.persistence import Persistence
from smartpubsub.protocols.scoutsubs.proximity import Proximity
from smartpubsub.protocols.scoutsubs.recovery import Recovery
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import (
    NO_EPOCH,
    is_split,
)
from smartpubsub.protocols.scoutsubs.timeouts import MS, ResponseTimes, backed_off
from smartpubsub.seam import Peer

NO_ROOM = 0
"""The acknowledged version of a parent that has no room for the filters."""
INCARNATION_BITS = 28
"""Tables of a later incarnation have higher versions for replicas than those of earlier ones."""


class TableChanged(NamedTuple):
    """The filters of a child, or the node's own, have changed."""

    attribute: str
    peer: Peer


class ChildAnnounced(NamedTuple):
    """A child has announced its filters, and they are in the table."""

    attribute: str
    peer: Peer
    is_restarted: bool
    is_retry: bool
    """Whether the child has lost its parent."""
    root_ms: int
    """For how long the child has acted as the rendezvous."""


class OwnFilterInForce(NamedTuple):
    """A change of the node's own filters is in force in a tree."""

    number: int
    attribute: str


class EpochChanged(NamedTuple):
    """An attribute is split, or whole again."""

    attribute: str


FilterNews: TypeAlias = TableChanged | ChildAnnounced | OwnFilterInForce | EpochChanged


@dataclass(slots=True)
class _Announcement:
    """An announcement that the parent has not acknowledged."""

    version: int
    sent_us: int
    tries: int = 1
    last_sent_us: int = 0
    """When it was last retransmitted."""


class _TableReplication(NamedTuple):
    """The replicas of a table, and the version that all of them have."""

    contacts: tuple[Contact, ...]
    copied: int


@dataclass(eq=False)
class Filters:
    """The filter tables of this node, its announcements, and those of its children."""

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _detector: FailureDetector
    _proximity: Proximity
    _times: ResponseTimes
    _persistence: Persistence
    _recovery: Recovery
    _membership: TreeMembership
    _report: Callable[[FilterNews], None]

    def __post_init__(self) -> None:
        self.tables: dict[str, FilterTable] = {}
        self.quotas = PeerQuotas()
        self.turns = AnnouncementTurns(self._outbox, self._filter_count)
        self.epochs = ShardEpochs(
            self._outbox, self._persistence, self._membership, self.tables, self._on_epoch
        )
        self.overlaps = Overlaps(self._outbox, self._membership, self.tables)
        self._long: dict[Peer, LongAnnouncement] = {}
        """By peer: an announcement that enters its table in steps, while others wait."""
        self._version_floor = 0
        self._copy_version_floor = 0
        """The highest versions of tables that were removed."""
        self._under_way: dict[str, _Announcement] = {}
        self._leaving: dict[tuple[str, Peer], int] = {}
        """Former parents that have not acknowledged the withdrawal, and the number of tries."""
        self._replicated: dict[str, _TableReplication] = {}

    # --- tables ---

    def add(self, attribute: str) -> None:
        """Begin an empty table for a tree that the node has entered."""
        # Its versions are higher than those of a table of this attribute that was removed before.
        incarnation_floor = self._recovery.incarnation << INCARNATION_BITS
        copy_version = max(self._copy_version_floor, incarnation_floor)
        table = FilterTable(attribute, self._version_floor, copy_version, self.quotas)
        table.epoch = self._persistence.epoch_of(attribute)
        self.tables[attribute] = table

    def remove(self, attribute: str) -> None:
        """Remove the table of a tree that the node leaves."""
        table = self.tables.pop(attribute)
        self._under_way.pop(attribute, None)
        self.overlaps.forget(attribute)
        self._persistence.drop_epoch(attribute)
        self._version_floor = max(self._version_floor, table.version)
        self._copy_version_floor = max(self._copy_version_floor, table.copy_version)

    def is_idle(self, attribute: str) -> bool:
        """Whether a table is empty, no owner waits for it, and no parent has to forget it."""
        table = self.tables[attribute]
        is_unused = table.is_empty and not table.children and not table.waiting
        is_settled = self.is_in_force(attribute) or not table.has_been_shown
        is_leaving = any(name == attribute for name, _ in self._leaving)
        is_split_root = self._membership.is_root(attribute) and is_split(table.epoch)
        return is_unused and is_settled and not is_split_root and not is_leaving

    def is_in_force(self, attribute: str) -> bool:
        """Whether the whole summary is in force."""
        table = self.tables[attribute]
        return self._membership.is_root(attribute) or table.in_force >= table.version

    def acts_as_root(self, attribute: str) -> bool:
        """Whether the node is the root, or was until the new root has all filters."""
        return self._membership.is_root(attribute) or self.tables[attribute].is_handing_over

    def is_child(self, attribute: str, peer: Peer) -> bool:
        """Whether a peer has announced filters in a tree."""
        table = self.tables.get(attribute)
        return table is not None and peer in table.children

    def has_announced_to(self, attribute: str, peer: Peer) -> bool:
        """Whether a peer is the parent in a tree, or a former one that the node withdraws from."""
        parent = self._membership.parent(attribute)
        is_parent = parent is not None and parent.peer == peer
        return is_parent or (attribute, peer) in self._leaving

    # --- replicas ---

    def needs_replicas(self, attribute: str) -> bool:
        """Whether a table has state that no other node has.

        A parent has the filters of its leaves, but no other node has those of the root, or knows
        that an attribute without subscribers is split.
        """
        table = self.tables[attribute]
        has_root_state = bool(table.own) or is_split(table.epoch)
        is_root = self.acts_as_root(attribute) and has_root_state
        return is_root or bool(table.live_children())

    def set_replicas(self, attribute: str, contacts: tuple[Contact, ...], copied: int) -> None:
        """Note the replicas of a table, and the version that all of them have."""
        if contacts:
            self._replicated[attribute] = _TableReplication(contacts, copied)
        else:
            self._replicated.pop(attribute, None)

    def replicas_of(self, attribute: str) -> tuple[Contact, ...]:
        """The replicas of a table."""
        replication = self._replicated.get(attribute)
        return () if replication is None else replication.contacts

    def copied_version(self, attribute: str) -> int:
        """The version for replicas that all of them have."""
        replication = self._replicated.get(attribute)
        if replication is None:
            return self.tables[attribute].copy_version  # There is no other live node.
        return replication.copied

    def next_copy_version(self, attribute: str) -> int:
        """Begin a version for replicas without a change."""
        table = self.tables[attribute]
        table.copy_version += 1
        return table.copy_version

    def copies(self, attribute: str, peers: list[Peer]) -> list[ChildCopy]:
        """Some children of a table as replicas keep them."""
        own, incarnation = self._proximity.own, self._recovery.incarnation
        return self.tables[attribute].copies(own, incarnation, peers)

    def touch(self, attribute: str, peer: Peer) -> None:
        """Store and replicate a child that has changed."""
        if peer != self._proximity.own.peer:
            self._persistence.keep_child(attribute, peer, self.copies(attribute, [peer]))
        self._report(TableChanged(attribute, peer))

    def restore(self, attribute: str, copy: ChildCopy) -> bool:
        """Add a child from a copy, unless it is this node or the table knows better."""
        if copy.contact.peer == self._proximity.own.peer:
            return False
        table, limit = self.tables[attribute], self._settings.child_count_max
        return table.restore(copy, self._outbox.now, limit)

    # --- the role has changed ---

    def begin_root(self, attribute: str) -> None:
        """Note that the node is the root from now on."""
        self.tables[attribute].root_us = self._outbox.now

    def prepare_parent(self, attribute: str, parent: Peer, *, was_root: bool) -> None:
        """Prepare for a new parent, which is not a child of this node any more."""
        table = self.tables[attribute]
        table.is_handing_over = was_root and not table.is_empty
        if parent in table.children:
            table.drop_child(parent)

    def set_parent(self, attribute: str, former: Contact | None, *, is_retry: bool) -> None:
        """Announce everything to a new parent; withdraw from the former once that is in force."""
        parent = self._membership.parent(attribute)
        assert parent is not None
        if former is not None and former.peer != parent.peer:
            self._leaving[attribute, former.peer] = 0
        table = self.tables[attribute]
        table.begin_anew()
        table.received = WHOLE
        table.in_force = 0 if table.has_been_shown else table.version
        self._under_way.pop(attribute, None)
        self.announce(attribute, is_retry=is_retry)

    def announce_whole(self, attribute: str) -> None:
        """Announce everything again to a parent that has restarted."""
        self.tables[attribute].received = WHOLE
        self.announce(attribute)

    # --- announcements to the parent ---

    def advance(self, attribute: str) -> bool:
        """Begin a new version of the summary if anything in it has changed."""
        is_root = self._membership.is_root(attribute)
        return self.tables[attribute].advance(
            self.replicas_of(attribute),
            self.epochs.claim(attribute),
            offers_shortcut=self._settings.redirects and not is_root,
        )

    def update(self, attribute: str) -> None:
        """Announce changes, if there are any, and notify the owners of filters in force."""
        if self.advance(attribute):
            self.announce(attribute)
        self.settle(attribute)

    def announce(self, attribute: str, *, is_retry: bool = False) -> None:
        """Tell the parent what it lacks, unless an announcement is under way."""
        tree, table = self._membership.trees[attribute], self.tables[attribute]
        if tree.role is not Role.CHILD or tree.parent is None:
            return
        if not self._recovery.is_ready:
            return  # It would replace what the parent knows of the nodes below this one.
        if attribute in self._under_way or table.received == table.version:
            return
        if table.received == WHOLE and not table.has_been_shown:
            return
        self._under_way[attribute] = _Announcement(table.version, self._outbox.now)
        self._send(attribute, is_retry=is_retry)

    def _send(self, attribute: str, *, is_retry: bool = False, timeouts: int = 1) -> None:
        parent, table = self._membership.parent(attribute), self.tables[attribute]
        assert parent is not None
        root_ms = (self._outbox.now - table.root_us) // MS + 1 if table.is_handing_over else 0
        part = table.announcement(self._recovery.incarnation, root_ms, is_retry=is_retry)
        self._outbox.queue(parent.peer, part)
        if part.base == WHOLE:
            self.overlaps.announce_again(attribute)
        timeout_us = timeouts * self._times.timeout_us_for(parent.peer)
        # Owners of filters wait for the answer. After a pause of the parent the timeout is long.
        timeout_us = min(timeout_us, self._settings.check_us_max)
        self._outbox.set_timer(("announce", attribute), timeout_us)

    def on_timer(self, attribute: str) -> None:
        """Retransmit an announcement that is not acknowledged, or not in force yet."""
        tree = self._membership.trees.get(attribute)
        if tree is None or tree.role is not Role.CHILD or tree.parent is None:
            return
        under_way, table = self._under_way.get(attribute), self.tables[attribute]
        if under_way is None:
            if table.in_force < table.version:
                self._send(attribute, timeouts=4)  # The answer tells the version in force.
            return
        # A probe does not wait behind filters, so it shows sooner whether the parent is up.
        self._detector.probe(tree.parent.peer)
        last_us = max(under_way.sent_us, under_way.last_sent_us)
        was_heard = self._detector.heard_us(tree.parent.peer) > last_us
        under_way.tries, under_way.last_sent_us = under_way.tries + 1, self._outbox.now
        self._send(attribute, timeouts=backed_off(1, under_way.tries, was_heard=was_heard))

    def renew(self, attribute: str) -> None:
        """Announce again until that is acknowledged, so that the filters do not lapse."""
        is_child = self._membership.role(attribute) is Role.CHILD
        table = self.tables[attribute]
        if is_child and attribute not in self._under_way and not table.is_empty:
            self._under_way[attribute] = _Announcement(table.version, self._outbox.now)
            self._send(attribute)

    def on_announced(self, peer: Peer, part: Announced) -> None:
        """Take the answer of a parent."""
        attribute = part.attribute
        if part.incarnation != self._recovery.incarnation:
            self._outbox.reject("replay")
            return
        self._leaving.pop((attribute, peer), None)
        parent = self._membership.parent(attribute)
        if parent is None or parent.peer != peer:
            return
        table, under_way = self.tables[attribute], self._under_way.get(attribute)
        if part.go_to is not None:
            if self._membership.redirect(attribute, part.go_to):
                self.set_parent(attribute, None, is_retry=False)
            return
        if part.wants_whole:
            table.received = WHOLE
            self._under_way.pop(attribute, None)
            self.announce(attribute)
            return
        if part.version == NO_ROOM:
            if under_way is not None:  # Another parent would not help; there may be room later.
                under_way.tries = 0
                self._outbox.set_timer(("announce", attribute), self._settings.check_us_max)
            return
        if not table.first_version <= part.version <= table.version:
            return  # It answers an earlier withdrawal, or something that was never announced.
        if under_way is not None and part.version >= under_way.version:
            self._times.sample(self._outbox.now - under_way.sent_us, under_way.tries)
            del self._under_way[attribute]
        table.received = max(table.received, part.version)
        self._take_in_force(table, part)
        self.announce(attribute)
        self.settle(attribute)

    def _take_in_force(self, table: FilterTable, part: Announced) -> None:
        if part.in_force:
            # The epoch first: filters in force in a split attribute are in force in its shards.
            self.epochs.on_parent_epoch(table, part.epoch)
        table.in_force = max(table.in_force, part.in_force)
        if self.is_in_force(table.attribute):
            table.in_force_us = self._outbox.now
            table.is_handing_over = False
            self._outbox.cancel_timer(("announce", table.attribute))
            self._withdraw_from_former(table)

    def _withdraw_from_former(self, table: FilterTable) -> None:
        """Withdraw the filters from former parents, now that the new one has them."""
        parent = self._membership.parent(table.attribute)
        for attribute, peer in list(self._leaving):
            if attribute != table.attribute or (parent and peer == parent.peer):
                continue
            tries = self._leaving[attribute, peer]
            if tries >= self._settings.tries_max:
                del self._leaving[attribute, peer]
                continue
            self._leaving[attribute, peer] = tries + 1
            incarnation = self._recovery.incarnation
            withdrawal = Announce(
                attribute, incarnation, table.version, WHOLE, (), (), None, (), False
            )
            self._outbox.queue(peer, withdrawal)

    def tick(self) -> None:
        """Retransmit withdrawals that may have been lost."""
        self.turns.tick()
        for attribute in list(dict.fromkeys(attribute for attribute, _ in self._leaving)):
            table = self.tables.get(attribute)
            if table is not None and table.in_force >= table.version:
                self._withdraw_from_former(table)

    # --- announcements of children ---

    def on_announce(self, contact: Contact, part: Announce) -> None:
        """Handle an announcement of a child, now or in its turn."""
        if self._is_known(contact.peer, part):
            self._take_announcement(contact, part)
        elif self.turns.admit(contact, part):
            self._handle_announcement(contact, part)

    def _is_known(self, peer: Peer, part: Announce) -> bool:
        """Whether an announcement has nothing new, so that it only costs an answer."""
        table = self.tables.get(part.attribute)
        if table is None:
            return part.base == WHOLE and not part.added
        child = table.children.get(peer)
        if child is None or (part.incarnation, part.version) > (child.incarnation, child.version):
            return False
        return part.epoch <= child.epoch

    def _filter_count(self, peer: Peer, attribute: str) -> int:
        table = self.tables.get(attribute)
        child = None if table is None else table.children.get(peer)
        return 0 if child is None else len(child.filters)

    def on_turn(self, peer: Peer) -> None:
        """Handle announcements of a child that have waited for its turn."""
        if peer in self._long and not self._step(peer):
            return
        for _ in range(AT_ONCE_MAX):
            waiting = self.turns.take(peer)
            if waiting is None:
                return
            self._handle_announcement(*waiting)
        self.turns.go_on(peer)  # Others may wait, and none of these may be under way.

    def forget_turns(self, peer: Peer) -> None:
        """Drop the waiting announcements of a peer that has disconnected."""
        self._long.pop(peer, None)
        self.turns.forget(peer)

    def _step(self, peer: Peer) -> bool:
        """Continue a long announcement; return whether it is done, or its child is gone."""
        long = self._long[peer]
        table = self.tables.get(long.part.attribute)
        if table is not None and table.children.get(peer) is long.child:
            long.step(table)
            if not long.is_done:
                self.turns.go_on(peer)
                return False
            self._complete(table, long.child, long.contact, long.part)
        del self._long[peer]
        self.turns.set_busy(peer, is_busy=False)
        self._note_under_way(peer, long.part.attribute)
        return True

    def _handle_announcement(self, contact: Contact, part: Announce) -> None:
        self._take_announcement(contact, part)
        self._note_under_way(contact.peer, part.attribute)

    def _note_under_way(self, peer: Peer, attribute: str) -> None:
        table = self.tables.get(attribute)
        if table is not None and peer in table.waiting:
            self.turns.begin(peer, attribute)

    def _take_announcement(self, contact: Contact, part: Announce) -> None:
        attribute = part.attribute
        if attribute not in self.tables:
            if part.base == WHOLE and not part.added:
                self._answer(contact.peer, part, version=part.version, in_force=part.version)
                return
            if not self._has_room(None, contact.peer, part):
                self._refuse(contact.peer, part)
                return
            if self._membership.join(attribute) is None:
                return
        if part.is_retry:
            self._membership.probe_parent(attribute)
        table = self.tables[attribute]
        child = table.children.get(contact.peer)
        if child is not None and part.incarnation < child.incarnation:
            self._outbox.reject("replay")
            return
        is_known = child is not None and part.incarnation == child.incarnation
        if child is not None and is_known and part.version <= child.version:
            child.heard_us = self._outbox.now
            if part.version == child.version and part.epoch > child.epoch:
                child.epoch = part.epoch  # An announcement of it may have been lost.
                self.update(attribute)
            self._answer_known(table, child)
            return
        is_next = is_known and child is not None and child.version == part.base
        is_next = is_next and child is not None and child.state is not ChildState.ENTERING
        if part.base != WHOLE and not is_next:
            self._answer(contact.peer, part, version=0, in_force=0, wants_whole=True)
            return
        self._apply(table, contact, part)

    def _apply(self, table: FilterTable, contact: Contact, part: Announce) -> None:
        attribute, peer = table.attribute, contact.peer
        child = table.children.get(peer)
        is_full = child is None and len(table.children) >= self._settings.child_count_max
        if is_full or not self._has_room(child, peer, part):
            self._refuse(peer, part)
            return
        if child is None:
            # A child that has missed events gets them here, and from no other node.
            has_to_stay = part.is_retry or (part.root_ms and table.has_recent)
            other = None if has_to_stay else self._other_parent(table, contact)
            if other is not None:
                self._outbox.queue(peer, Announced(attribute, part.incarnation, 0, 0, False, other))
                return
            child = ScoutChild(contact, part.incarnation, 0, self._outbox.now, epoch=NO_EPOCH)
            table.children[peer] = child
        else:
            child.move("announcement")
        removed = list(part.removed)
        if part.base == WHOLE:
            wanted = dict.fromkeys(part.added)
            if not wanted and child.filters:
                table.remember_former(child, self._outbox.now)
            removed = [predicate for predicate in child.filters if predicate not in wanted]
        if len(part.added) + len(removed) > STEP:
            self._long[peer] = LongAnnouncement(contact, part, child, removed)
            self.turns.set_busy(peer, is_busy=True)
            self.turns.go_on(peer)
            return
        table.change_child(child, part.added, removed)
        self._complete(table, child, contact, part)

    def _complete(
        self, table: FilterTable, child: ScoutChild, contact: Contact, part: Announce
    ) -> None:
        """Finish an announcement whose filters are all in the table."""
        attribute, peer = table.attribute, contact.peer
        is_restarted = part.incarnation != child.incarnation
        if is_restarted:
            child.epoch = NO_EPOCH
        if is_restarted or part.base == WHOLE:
            table.waiting.pop(peer, None)
            table.superseded.pop(peer, None)
            child.in_force = 0
        child.incarnation, child.version = part.incarnation, part.version
        child.move("last filter entered")
        child.heard_us = self._outbox.now
        # A child that claims no epoch yet keeps the one that this node has told it.
        child.backups, child.epoch = part.backups, part.epoch or child.epoch
        child.shortcut = self._accepted_shortcut(contact, part)
        self.touch(attribute, peer)
        self.epochs.on_child_epoch(attribute, part.epoch)
        self._changed(table, peer, part.version)
        self._report(ChildAnnounced(attribute, peer, is_restarted, part.is_retry, part.root_ms))

    def _accepted_shortcut(self, child: Contact, part: Announce) -> Contact | None:
        """The shortcut that a child offers, if it leads to a node below the child."""
        shortcut = part.shortcut if self._settings.redirects else None
        key = key_of(part.attribute.encode())
        if shortcut is not None and shortcut.key ^ key <= child.key ^ key:
            self._outbox.reject("shortcut")
            return None
        return shortcut

    def _refuse(self, peer: Peer, part: Announce) -> None:
        self._outbox.reject("filters")
        self._answer(peer, part, version=NO_ROOM, in_force=0)

    def _has_room(self, child: ScoutChild | None, peer: Peer, part: Announce) -> bool:
        """Whether a child's filters are within the limits of the peer."""
        settings = self._settings
        before = len(child.filters) if child is not None else 0
        after = len(part.added)
        if child is not None and part.base != WHOLE:
            gone = sum(predicate in child.filters for predicate in dict.fromkeys(part.removed))
            after += before - gone
        is_more = after > before  # A change that makes room is never rejected.
        if is_more and self.quotas.filters_of(peer) - before + after > settings.filter_count_max:
            return False
        if before or not after:
            return True
        # A peer has at most as many trees as there is free room, so others always find some.
        room = settings.tree_count_max - len(self.tables)
        return self.quotas.tables_of(peer) <= min(room, settings.attribute_count_per_peer_max - 1)

    def _other_parent(self, table: FilterTable, newcomer: Contact) -> Contact | None:
        """The child to send a newcomer to, if this node has enough children.

        So no node sends much more than others, however popular an attribute is. Like every parent,
        the child has to be closer to the key than the newcomer.
        """
        fan_out_max = self._settings.fan_out_max
        if not fan_out_max:
            return None
        live = table.live_children()
        if len(live) < fan_out_max:
            return None
        key = key_of(table.attribute.encode())
        closer = [
            child.contact
            for child in live
            if child.contact.key ^ key < newcomer.key ^ key
            and not self._detector.is_suspected(child.contact.peer)
        ]
        return closer[newcomer.key % len(closer)] if closer else None

    def expire_children(self, attribute: str) -> None:
        """Remove the children that have not renewed their filters."""
        table = self.tables[attribute]
        oldest = self._outbox.now - 2 * self._settings.renew_us
        for peer in [p for p, child in table.children.items() if child.heard_us < oldest]:
            table.drop_child(peer)
            self.touch(attribute, peer)
            self._changed(table, peer, 0)

    # --- own subscriptions ---

    def subscribe(self, attribute: str, number: int, predicate: Predicate) -> None:
        """Add a filter of the node's own; `OwnFilterInForce` comes when it is in force."""
        table = self.tables[attribute]
        table.subscribe(number, predicate)
        self.touch(attribute, self._proximity.own.peer)
        self._changed(table, number, 0)

    def unsubscribe(self, attribute: str, number: int) -> None:
        """Remove a filter of the node's own; `OwnFilterInForce` comes when that is in force."""
        table = self.tables[attribute]
        table.unsubscribe(number)
        self.touch(attribute, self._proximity.own.peer)
        self._changed(table, number, 0)

    def set_recent(self, attribute: str, *, has_recent: bool) -> None:
        """Note whether events were admitted here that a former root may have missed."""
        self.tables[attribute].has_recent = has_recent

    # --- filters in force ---

    def _changed(self, table: FilterTable, owner: FilterOwner, child_version: int) -> None:
        """Announce changed filters, and notify their owner when the change is in force."""
        self._membership.use(table.attribute)
        self.overlaps.schedule()
        self.advance(table.attribute)
        before = table.waiting.pop(owner, None)
        if before is not None and isinstance(owner, bytes) and owner in table.children:
            # Await the first and the last of several changes. With the last alone, a child that
            # changes often would never learn that anything is in force.
            table.superseded.setdefault(owner, before)
        table.waiting[owner] = AwaitedVersion(child_version, table.version, table.copy_version)
        self.announce(table.attribute)
        self.settle(table.attribute)
        if isinstance(owner, bytes) and owner in table.waiting:
            self._acknowledge(table, owner, child_version, in_force=0)

    def settle(self, attribute: str) -> None:
        """Notify the owners whose filters are in force now."""
        table = self.tables[attribute]
        if not table.waiting:
            return
        if self._membership.is_root(attribute):
            table.in_force = table.version
        copied = self.copied_version(attribute)

        def is_awaited(wait: AwaitedVersion) -> bool:
            return table.in_force < wait.version or copied < wait.copy_version

        for peer, wait in list(table.superseded.items()):
            if not is_awaited(wait):
                del table.superseded[peer]
                version = table.children[peer].version
                self._acknowledge(table, peer, version, in_force=wait.child_version)
        notified: list[FilterOwner] = []
        for owner, wait in table.waiting.items():
            if is_awaited(wait):
                break  # All others wait for later versions.
            notified.append(owner)
            if isinstance(owner, int):
                self._report(OwnFilterInForce(owner, attribute))
            else:
                self._on_child_in_force(table, owner, wait.child_version)
        for owner in notified:
            del table.waiting[owner]

    def _on_child_in_force(self, table: FilterTable, peer: Peer, version: int) -> None:
        if peer in table.children:
            table.children[peer].move("in force")
        self._acknowledge(table, peer, version, in_force=version)
        self.turns.end(peer, table.attribute)

    def _acknowledge(self, table: FilterTable, peer: Peer, version: int, *, in_force: int) -> None:
        child = table.children.get(peer)
        if child is None:
            return
        if in_force:
            # From now on the child has filters in force, in the epoch of this message.
            child.epoch = child.epoch or table.epoch
            child.in_force = max(child.in_force, in_force)
        self._outbox.queue(
            peer,
            Announced(
                *(table.attribute, child.incarnation, version, in_force, False, None),
                epoch=table.epoch,
            ),
        )

    def _answer_known(self, table: FilterTable, child: ScoutChild) -> None:
        peer = child.contact.peer
        in_force = child.in_force if peer in table.waiting else child.version
        self._acknowledge(table, peer, child.version, in_force=in_force)

    def _answer(
        self, peer: Peer, part: Announce, *, version: int, in_force: int, wants_whole: bool = False
    ) -> None:
        answer = Announced(part.attribute, part.incarnation, version, in_force, wants_whole, None)
        self._outbox.queue(peer, answer)

    def _on_epoch(self, table: FilterTable) -> None:
        """Tell replicas, children and the parent that the attribute is split, or whole again."""
        attribute = table.attribute
        table.copy_version += 1
        table.epoch_copy_version = table.copy_version
        self.touch(attribute, self._proximity.own.peer)
        self._report(EpochChanged(attribute))
        for child in table.live_children():
            self._answer_known(table, child)
        self.update(attribute)
        self.overlaps.schedule()

    # --- invariants ---

    def check(self) -> None:
        """Assert the invariants of all tables, and that quotas and trees agree with them."""
        assert list(self.tables) == list(self._membership.trees)
        self.overlaps.check()
        assert self._under_way.keys() <= self.tables.keys()
        self.turns.check()
        assert all(self.turns.is_busy(peer) for peer in self._long)
        filters: dict[Peer, int] = {}
        for table in self.tables.values():
            table.check()
            for peer, child in table.children.items():
                filters[peer] = filters.get(peer, 0) + len(child.filters)
        assert all(self.quotas.filters_of(peer) == count for peer, count in filters.items())
        assert len(self.quotas) == sum(count > 0 for count in filters.values())
