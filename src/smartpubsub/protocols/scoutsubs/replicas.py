"""The replicas that this node keeps for others: of filter tables, and of events in custody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.ledger import Ledger
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.protocols.publication import EventId, Publication, Signing
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.audit_keeper import AuditKeeper
from smartpubsub.protocols.scoutsubs.duplicates import EventKey
from smartpubsub.protocols.scoutsubs.history import History
from smartpubsub.protocols.scoutsubs.messages import (
    NO_PEER,
    ChildCopy,
    CopyTree,
    Done,
    PulledOwn,
    Record,
    Recorded,
    TreeCopied,
)
from smartpubsub.protocols.scoutsubs.persistence import Persistence
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import NO_EPOCH, is_split
from smartpubsub.protocols.scoutsubs.timeouts import MS
from smartpubsub.seam import Peer

COMPLETED_COUNT_MAX = 10_000
NO_COPY = 0
"""The version of a copy that is missing."""
ASK_US = MINUTE
"""After this time, a replica first asks the owner of an event whether the event is completed.

Then it asks at twice the event's age each time: an event may wait long for a child that is down.
"""
_TREE_BYTES, _CHILD_BYTES, _FILTER_BYTES = 1_024, 512, 256
"""About how much memory a tree, a child in it and a filter of the child take."""


@dataclass(slots=True)
class TableReplica:
    """The children of another node in one tree."""

    is_root: bool
    heard_us: int
    version: int
    children: dict[Peer, ChildCopy] = field(default_factory=dict)
    epoch: int = NO_EPOCH

    @property
    def size(self) -> int:
        """About how much memory it takes."""
        return _TREE_BYTES + sum(map(_size_of, self.children.values()))


def _size_of(child: ChildCopy) -> int:
    return _CHILD_BYTES + _FILTER_BYTES * len(child.filters)


class TableReplicas:
    """The filter tables that this node keeps for others, each charged to its owner."""

    def __init__(self, outbox: ScoutOutbox, settings: ScoutSettings, ledger: Ledger) -> None:
        self._outbox = outbox
        self._settings = settings
        bytes_max = settings.copied_bytes_max
        self.account = ledger.open("copies of filters", bytes_max, bytes_max // 2)
        self.kept: dict[tuple[Peer, str], TableReplica] = {}
        """By owner and attribute."""
        self._of_roots: dict[str, dict[Peer, TableReplica]] = {}
        """The tables of rendezvous among them, by attribute and owner."""

    def on_copy(self, peer: Peer, part: CopyTree) -> None:
        """Take an update of a table from its owner."""
        key = (peer, part.attribute)
        kept = self.kept.get(key)
        if kept is None and not part.is_whole:
            self._outbox.queue(peer, TreeCopied(part.attribute, NO_COPY, False))
            return
        is_full = False
        if kept is None or part.version > kept.version:
            is_full = not self._has_room(peer, kept, part)
            if is_full:
                self._outbox.reject("copies")
            else:
                self._keep(key, kept, part)
        elif part.version == kept.version:
            kept.heard_us = self._outbox.now
        self._outbox.queue(peer, TreeCopied(part.attribute, part.version, is_full))

    def _has_room(self, owner: Peer, kept: TableReplica | None, part: CopyTree) -> bool:
        settings, account = self._settings, self.account
        known = {} if kept is None or part.is_whole else kept.children
        new = dict.fromkeys(child.contact.peer for child in part.children)
        # One more than a table has children, for the owner's own filters.
        count = len(known) + sum(peer not in known for peer in new)
        is_small = all(len(child.filters) <= settings.filter_count_max for child in part.children)
        if not is_small or count > settings.child_count_max + 1:
            return False
        more = self._growth(kept, part)
        room = account.size_max - account.size
        has_room = more <= 0 or account.size_of(owner) + 2 * more <= room
        if not has_room:
            account.refuse()
        return has_room

    def _growth(self, kept: TableReplica | None, part: CopyTree) -> int:
        """How much more memory a table takes after an update."""
        new = {child.contact.peer: child for child in part.children}
        for peer in part.gone:
            new.pop(peer, None)
        more = sum(map(_size_of, new.values()))
        if part.is_whole:
            before = 0 if kept is None else kept.size
            return more + _TREE_BYTES * _has_content(part) - before
        assert kept is not None
        changed = dict.fromkeys([*new, *part.gone])
        return more - sum(_size_of(kept.children[p]) for p in changed if p in kept.children)

    def _keep(self, key: tuple[Peer, str], kept: TableReplica | None, part: CopyTree) -> None:
        now = self._outbox.now
        self.account.change(key[0], self._growth(kept, part))
        if part.is_whole:
            self._remove(key)
            if not _has_content(part):
                return
            kept = None
        if kept is None:
            kept = self.kept[key] = TableReplica(part.is_root, now, part.version)
            if part.is_root:
                self._of_roots.setdefault(part.attribute, {})[key[0]] = kept
        kept.heard_us, kept.version, kept.epoch = now, part.version, part.epoch
        for child in part.children:
            kept.children[child.contact.peer] = child
        for gone in part.gone:
            kept.children.pop(gone, None)

    def _drop(self, key: tuple[Peer, str]) -> None:
        self.account.change(key[0], -self.kept[key].size)
        self._remove(key)

    def _remove(self, key: tuple[Peer, str]) -> None:
        owner, attribute = key
        kept = self.kept.pop(key, None)
        if kept is not None and kept.is_root:
            roots = self._of_roots[attribute]
            del roots[owner]
            if not roots:
                del self._of_roots[attribute]

    def on_pull_own(self, peer: Peer) -> None:
        """Send a node that has restarted the copies of its tables."""
        trees = tuple(
            (name, tuple(kept.children.values()))
            for (owner, name), kept in self.kept.items()
            if owner == peer and not kept.is_root
        )
        self._outbox.queue(peer, PulledOwn(trees))

    def root_copy(self, attribute: str) -> tuple[Peer, tuple[ChildCopy, ...]]:
        """The rendezvous with the newest copy, and its children; `NO_PEER` if there is none."""
        found = self._of_roots.get(attribute)
        if not found:
            return NO_PEER, ()
        owner = max(found, key=lambda owner: (found[owner].heard_us, owner))
        return owner, tuple(found[owner].children.values())

    def root_epoch(self, attribute: str) -> int:
        """The latest shard epoch in the copies of a rendezvous."""
        found = self._of_roots.get(attribute, {})
        return max((kept.epoch for kept in found.values()), default=NO_EPOCH)

    def root_attributes(self, owner: Peer) -> list[str]:
        """The attributes that a node is the rendezvous of, according to the copies kept here."""
        return [name for (peer, name), kept in self.kept.items() if peer == owner and kept.is_root]

    def owners(self) -> list[Peer]:
        """The nodes whose tables are kept here."""
        return list(dict.fromkeys(owner for owner, _ in self.kept))

    def tick(self) -> None:
        """Remove copies that were not renewed."""
        # One renewal may be lost, and the filters of the owner's children lapse after 2t.
        oldest = self._outbox.now - 3 * self._settings.renew_us
        for key, kept in list(self.kept.items()):
            if kept.heard_us < oldest:
                self._drop(key)

    def check(self) -> None:
        """Assert the invariants: copies have content, and children are under their own ids."""
        for kept in self.kept.values():
            assert all(copy.contact.peer == peer for peer, copy in kept.children.items())
        of_roots = {(o, name): k for name, some in self._of_roots.items() for o, k in some.items()}
        assert of_roots == {key: kept for key, kept in self.kept.items() if kept.is_root}
        assert self.account.size == sum(kept.size for kept in self.kept.values())
        self.account.check()


def _has_content(part: CopyTree) -> bool:
    return bool(part.children) or is_split(part.epoch)


@dataclass(slots=True)
class EventReplica:
    """An event in the custody of a rendezvous, and when it was published."""

    record: Record
    owner: Peer
    """The rendezvous; `NO_PEER` if none has acknowledged the event."""
    began_us: int
    ask_us: int
    """When to ask the owner whether the event is completed."""
    successor: Peer | None = None
    """Another node that has recorded the event, and has custody of it if the owner is down."""
    is_done: bool = False
    """Whether the successor has said that the event is completed."""

    def aged(self, now: int) -> Record:
        """The record with the event's age at a time."""
        return self.record._replace(age_ms=(now - self.began_us) // MS)


@dataclass(eq=False)
class EventReplicas:
    """The events that this node keeps for rendezvous until they are completed."""

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _own: Contact
    _signing: Signing
    _detector: FailureDetector
    _persistence: Persistence
    _history: History
    _audits: AuditKeeper
    _has_custody: Callable[[EventKey], bool]
    """Whether this node has custody of an event itself, as the rendezvous or a former one."""

    def __post_init__(self) -> None:
        self.kept: dict[EventKey, EventReplica] = {}
        self._without_rendezvous: dict[EventKey, None] = {}
        """The kept events that no rendezvous has acknowledged."""
        self._completed: BoundedDict[tuple[Peer, str], EventId] = BoundedDict(COMPLETED_COUNT_MAX)
        """By publisher and attribute, the newest event that was completed."""

    def on_record(self, contact: Contact, part: Record) -> None:
        """Keep an event for a rendezvous.

        A known event keeps its age. It also keeps its owner, unless the owner is down or the other
        node is closer to the key.
        """
        peer, key = contact.peer, (part.event.id, part.attribute)
        kept = self.kept.get(key)
        if kept is not None:
            self._record_again(kept, contact)
            self._outbox.queue(peer, Recorded(*key, False))
            return
        if not self._signing.is_signed(part.event):
            self._outbox.reject("signature")
            return
        has_room = len(self.kept) < self._settings.record_count_max
        is_full = not has_room or not self._persistence.has_room_for(part.event, peer)
        if is_full:
            self._outbox.reject("records")
        else:
            self.keep(part, peer)
        self._outbox.queue(peer, Recorded(*key, is_full))

    def _record_again(self, kept: EventReplica, contact: Contact) -> None:
        key = key_of(kept.record.attribute.encode())
        is_closer = contact.key ^ key < key_of(kept.owner) ^ key
        if contact.peer == kept.owner:
            return
        if is_closer or not kept.owner or self._detector.is_down(kept.owner):
            self._change_owner(kept, contact.peer)
        else:
            kept.successor, kept.is_done = contact.peer, False
            self._detector.probe(kept.owner)

    def _change_owner(self, kept: EventReplica, owner: Peer) -> None:
        kept.owner, kept.successor = owner, None
        kept.ask_us = self._outbox.now + ASK_US
        self._without_rendezvous.pop((kept.record.event.id, kept.record.attribute), None)
        self._persistence.keep_record(kept.aged(self._outbox.now), owner)

    def on_peer_down(self, peer: Peer) -> None:
        """Give the custody of an owner that is down to the successors."""
        for key, kept in list(self.kept.items()):
            if kept.owner == peer and kept.successor is not None:
                if kept.is_done:
                    self.forget(key)
                else:
                    self._change_owner(kept, kept.successor)

    def keep(self, record: Record, owner: Peer) -> None:
        """Keep an event for its current owner; `NO_PEER` if no rendezvous has it."""
        key, now = (record.event.id, record.attribute), self._outbox.now
        self.kept[key] = EventReplica(record, owner, now - record.age_ms * MS, now + ASK_US)
        if owner == NO_PEER:
            self._without_rendezvous[key] = None
        else:
            self._without_rendezvous.pop(key, None)
        self._persistence.keep_record(record, owner)
        self._history.keep(record.event, record.attribute)
        self._audits.keep(record.event, record.attribute)

    def keep_for_publisher(self, event: Publication, attribute: str) -> bool:
        """Keep an event that no rendezvous has acknowledged, until one has it.

        The publisher sends it to the rendezvous. If the publisher is gone, this node does. Return
        whether there was room.
        """
        key, now = (event.id, attribute), self._outbox.now
        if key in self.kept or self._has_custody(key):
            return True
        has_room = len(self.kept) < self._settings.record_count_max
        if not has_room or not self._persistence.has_room_for(event, NO_PEER):
            self._outbox.reject("records")
            return False
        age_us = now - event.created_us
        is_recent = 0 <= age_us < 2 * self._settings.renew_us  # Otherwise clocks differ.
        age_ms = age_us // MS if is_recent else 0
        self.keep(Record(event, attribute, 0, False, age_ms), NO_PEER)
        return True

    def orphans(self, publisher: Peer, incarnation: int | None = None) -> list[EventReplica]:
        """The events without a rendezvous of a publisher that does not send them any more.

        With an incarnation, only those from before the publisher's restart.
        """
        return [
            self.kept[id, attribute]
            for id, attribute in self._without_rendezvous
            if id.publisher == publisher and (incarnation is None or id.incarnation < incarnation)
        ]

    def publishers(self) -> list[Peer]:
        """The publishers of events without a rendezvous."""
        return list(dict.fromkeys(id.publisher for id, _ in self._without_rendezvous))

    def may_complete(self, peer: Peer, part: Done) -> bool:
        """Whether a peer has an event in its custody, as far as this node knows."""
        kept = self.kept.get((part.id, part.attribute))
        if kept is None:
            return True
        owner = kept.owner or part.id.publisher  # Which knows when a rendezvous has the event.
        return peer in (owner, kept.successor)

    def on_done(self, peer: Peer, part: Done) -> None:
        """Forget an event that its rendezvous has completed, or has from a publisher by now.

        The word of a successor counts when the recorded owner is down.
        """
        kept = self.kept.get((part.id, part.attribute))
        if kept is None:
            return
        if kept.owner in (peer, NO_PEER):
            self.forget((part.id, part.attribute))
        else:
            kept.is_done = True

    def forget(self, key: EventKey) -> None:
        """Forget an event that is completed, or in this node's own custody."""
        kept = self.kept.pop(key, None)
        self._without_rendezvous.pop(key, None)
        if kept is not None:
            if self._has_custody(key):
                self._persistence.keep_record(kept.aged(self._outbox.now), self._own.peer)
            else:
                self._history.on_done(key)
            id, attribute = key
            newest = self._completed.get((id.publisher, attribute), id)
            self._completed[id.publisher, attribute] = max(id, newest)

    def ask_soon(self, key: EventKey) -> None:
        """Ask the owner of an event at the next tick whether it has completed the event."""
        self.kept[key].ask_us = self._outbox.now

    def ask_owners(self) -> None:
        """Tell the owners of some events that this node still keeps them.

        An owner that has completed an event answers with another `Done`. Its first one was lost, or
        this node was away.
        """
        now = self._outbox.now
        for key, kept in self.kept.items():
            is_others = kept.owner not in (self._own.peer, NO_PEER)
            if kept.ask_us <= now and is_others and not self._detector.is_down(kept.owner):
                kept.ask_us = now + max(ASK_US, now - kept.began_us)
                self._outbox.queue(kept.owner, Recorded(*key, False))

    def was_completed(self, key: EventKey) -> bool:
        """Whether an event was kept and completed, or a later one of its publisher was."""
        id, attribute = key
        newest = self._completed.get((id.publisher, attribute))
        return newest is not None and newest.incarnation == id.incarnation and newest >= id

    def records_of(self, attribute: str) -> list[Record]:
        """The kept events of an attribute."""
        now = self._outbox.now
        return [kept.aged(now) for (_, name), kept in self.kept.items() if name == attribute]

    def attributes(self) -> list[str]:
        """The attributes of kept events."""
        return list(dict.fromkeys(attribute for _, attribute in self.kept))

    def attributes_of(self, owner: Peer) -> list[str]:
        """The attribute of each event that is kept for a rendezvous."""
        return [kept.record.attribute for kept in self.kept.values() if kept.owner == owner]

    def owners(self) -> list[Peer]:
        """The other nodes whose events are kept here."""
        none = self._own.peer, NO_PEER
        return list(dict.fromkeys(k.owner for k in self.kept.values() if k.owner not in none))

    def check(self) -> None:
        """Assert the invariants: events are under their own keys."""
        for (id, attribute), kept in self.kept.items():
            assert (kept.record.event.id, kept.record.attribute) == (id, attribute)
        waiting = [key for key, kept in self.kept.items() if kept.owner == NO_PEER]
        assert sorted(waiting) == sorted(self._without_rendezvous)
