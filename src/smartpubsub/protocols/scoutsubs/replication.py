"""Replication of filter tables to the nodes that would take this one's place.

A node replicates its tables to the f peers closest to its own key; a rendezvous to the f others
closest to the attribute's key. It sends a changed child whole, and one update at a time to each
replica. It replaces a replica that does not answer, and sends the new one the whole table;
`replica_choice.py` chooses the replicas.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.filters import Filters
from smartpubsub.protocols.scoutsubs.membership import Role, TreeMembership
from smartpubsub.protocols.scoutsubs.messages import CopyTree, TreeCopied
from smartpubsub.protocols.scoutsubs.proximity import Proximity
from smartpubsub.protocols.scoutsubs.recovery import Recovery
from smartpubsub.protocols.scoutsubs.replica_choice import ReplicaChoice
from smartpubsub.protocols.scoutsubs.replicas import NO_COPY
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.timeouts import ResponseTimes, backed_off
from smartpubsub.seam import Peer


@dataclass(slots=True, eq=False)
class _ReplicaStream:
    """The updates of one table to one replica."""

    contact: Contact
    is_root: bool
    copied: int = -1
    sent: int = -1
    sent_us: int = 0
    tries: int = 0
    dirty: dict[Peer, None] = field(default_factory=dict)
    """Children that have changed since the last update."""
    in_update: dict[Peer, None] = field(default_factory=dict)
    """Children in the update that is under way."""

    @property
    def is_under_way(self) -> bool:
        return self.sent > self.copied


@dataclass(eq=False)
class Replication:
    """The replicas of this node's tables, and the version that each of them has."""

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _detector: FailureDetector
    _proximity: Proximity
    _choice: ReplicaChoice
    _times: ResponseTimes
    _recovery: Recovery
    _membership: TreeMembership
    _filters: Filters

    def __post_init__(self) -> None:
        self._streams: dict[str, dict[Peer, _ReplicaStream]] = {}

    def replicas(self) -> list[Peer]:
        """All replicas of this node's tables."""
        return list(dict.fromkeys(peer for streams in self._streams.values() for peer in streams))

    def is_replica(self, attribute: str, peer: Peer) -> bool:
        """Whether a peer has to keep a copy of a table."""
        return peer in self._streams.get(attribute, {})

    def touch(self, attribute: str, peer: Peer) -> None:
        """Send a changed child to the replicas."""
        before = list(self._streams.get(attribute, {}).values())
        self.refresh(attribute)
        for stream in self._streams.get(attribute, {}).values():
            if stream in before:  # New replicas were sent the whole table just now.
                stream.dirty[peer] = None
                self._send(attribute, stream)

    def refresh(self, attribute: str) -> None:
        """Replicate a table to the nodes that should have it, and withdraw it from others.

        Do nothing until the node knows its role in the tree and has recovered from a restart:
        before that, an update would replace a better copy.
        """
        is_placed = self._membership.role(attribute) in (Role.CHILD, Role.ROOT)
        if not is_placed or not self._recovery.is_ready:
            return
        acts_as_root = self._filters.acts_as_root(attribute)
        wanted = {contact.peer: contact for contact in self._wanted(attribute)}
        streams = self._streams.setdefault(attribute, {})
        is_changed = False
        for peer in list(streams):
            if peer not in wanted or streams[peer].is_root != acts_as_root:
                del streams[peer]
                is_changed = True
                # Earlier updates must be older than those that follow.
                version = self._filters.next_copy_version(attribute)
                if peer not in wanted:
                    withdrawal = CopyTree(attribute, False, version, True, (), ())
                    self._outbox.queue(peer, withdrawal)
        for peer, contact in wanted.items():
            if peer not in streams:
                streams[peer] = stream = _ReplicaStream(contact, acts_as_root)
                is_changed = True
                self._detector.learn_incarnation(peer)
                self._send(attribute, stream)
        if not streams:
            del self._streams[attribute]
        if is_changed:
            self._report_replicas(attribute)

    def _wanted(self, attribute: str) -> tuple[Contact, ...]:
        if not self._filters.needs_replicas(attribute):
            return ()
        acts_as_root = self._filters.acts_as_root(attribute)
        name = attribute.encode() if acts_as_root else self._proximity.own.peer
        return self._choice.closest(name)

    def _report_replicas(self, attribute: str) -> None:
        streams = self._streams.get(attribute, {}).values()
        copied = min((stream.copied for stream in streams), default=-1)
        contacts = tuple(stream.contact for stream in streams)
        self._filters.set_replicas(attribute, contacts, copied)

    def _send(self, attribute: str, stream: _ReplicaStream, tries: int = 1) -> None:
        if stream.is_under_way:
            return
        table = self._filters.tables[attribute]
        is_whole = stream.copied < 0
        own = self._proximity.own.peer
        peers = [own, *table.children] if is_whole else list(stream.dirty)
        if not peers:
            return
        copies = self._filters.copies(attribute, peers)
        kept = {copy.contact.peer: None for copy in copies}
        part = CopyTree(
            attribute,
            stream.is_root,
            table.copy_version,
            is_whole,
            tuple(copies),
            () if is_whole else tuple(peer for peer in peers if peer not in kept),
            table.epoch,
        )
        peer = stream.contact.peer
        was_heard = self._detector.heard_us(peer) > stream.sent_us
        stream.in_update, stream.dirty = dict.fromkeys(peers), {}
        stream.sent, stream.sent_us, stream.tries = table.copy_version, self._outbox.now, tries
        self._outbox.queue(peer, part)
        if tries > 1:
            self._choice.on_repeated(peer, attribute)
        else:
            self._choice.end(peer, attribute)
        timeout_us = self._times.timeout_us_for(peer)
        timeout_us = backed_off(timeout_us, stream.tries, was_heard=was_heard)
        # Owners of filters wait for this update, and it may just have been lost.
        timeout_us = min(timeout_us, self._settings.check_us_max)
        self._outbox.set_timer(("replicate", attribute, peer), timeout_us)

    def on_timer(self, attribute: str, peer: Peer) -> None:
        """Retransmit an update that was not acknowledged."""
        stream = self._streams.get(attribute, {}).get(peer)
        if attribute not in self._filters.tables or stream is None or not stream.is_under_way:
            return
        if self._choice.on_timeout(peer, attribute):
            return
        self._detector.probe(peer)  # It is replaced if it is down.
        stream.dirty |= stream.in_update
        stream.sent = stream.copied
        self._send(attribute, stream, stream.tries + 1)

    def on_copied(self, peer: Peer, part: TreeCopied) -> None:
        """Take the answer of a replica that has an update, or has no room for it."""
        attribute = part.attribute
        stream = self._streams.get(attribute, {}).get(peer)
        if attribute not in self._filters.tables or stream is None:
            return
        self._choice.end(peer, attribute)
        if part.is_full:
            # Another node would not be a better replica; there may be room later.
            stream.tries = 0
            self._outbox.set_timer(("replicate", attribute, peer), self._settings.check_us_max)
            return
        if part.version == NO_COPY:
            self._refill(attribute, stream)
            return
        if part.version != stream.sent:
            return
        self._times.sample(self._outbox.now - stream.sent_us, stream.tries)
        stream.copied = part.version
        stream.in_update = {}
        self._report_replicas(attribute)
        self._outbox.cancel_timer(("replicate", attribute, peer))
        self._send(attribute, stream)
        self._filters.settle(attribute)

    def on_restarted(self, peer: Peer) -> None:
        """Send all tables again to a replica that has restarted and lost its copies."""
        for attribute, streams in self._streams.items():
            if peer in streams and attribute in self._filters.tables:
                self._refill(attribute, streams[peer])

    def _refill(self, attribute: str, stream: _ReplicaStream) -> None:
        stream.copied = stream.sent = -1
        self._report_replicas(attribute)
        self._send(attribute, stream)

    def tick(self, attributes: Iterable[str]) -> None:
        """Replace replicas of some tables that are down, and announce the new ones."""
        for attribute in attributes:
            if attribute in self._filters.tables:
                self.refresh(attribute)
                self._filters.update(attribute)

    def renew(self, attribute: str) -> None:
        """Renew the copies of the replicas, so that they do not expire."""
        for peer, stream in self._streams.get(attribute, {}).items():
            if not stream.is_under_way:
                part = CopyTree(attribute, stream.is_root, stream.copied, False, (), ())
                self._outbox.queue(peer, part)

    def check(self) -> None:
        """Assert the invariants: the tables know their replicas, and no replica is ahead."""
        for attribute, streams in self._streams.items():
            assert streams
            contacts = tuple(stream.contact for stream in streams.values())
            assert contacts == self._filters.replicas_of(attribute)
            table = self._filters.tables.get(attribute)
            for stream in streams.values():
                assert stream.copied <= max(stream.sent, -1)
                assert table is None or stream.sent <= table.copy_version
