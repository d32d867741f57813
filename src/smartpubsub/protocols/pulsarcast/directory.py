"""The topics that this node replicates, their versions, and the search for descriptors.

A topic, all its versions and its meta topic share one tree and one log. The content id of the meta
topic names all of them. Descriptors come from the peer that mentioned them, or from the overlay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.keys import Key, key_of
from smartpubsub.kademlia.queries import Got
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.log import Log
from smartpubsub.protocols.pulsarcast.messages import Described, WantBlocks
from smartpubsub.protocols.pulsarcast.permissions import (
    check_meta_topic,
    check_next_version,
)
from smartpubsub.protocols.pulsarcast.refusals import RefusalError
from smartpubsub.protocols.pulsarcast.topics import Topic, read_topic
from smartpubsub.seam import Peer

RETRY_US = 3 * SECOND
SEARCHES_MAX = 10
"""How often to search the overlay for a descriptor before it counts as not found."""
WANTED_MAX = 10_000
ANSWERED_MAX = 50
"""How many descriptors to send in answer to one message."""


@dataclass(slots=True, eq=False)
class TopicReplica:
    """What this node knows of a topic: its versions and its events."""

    id: Cid
    """The content id of the meta topic, which all versions share."""
    topic: Topic
    """The newest version."""
    meta: Topic
    own_distance: Key
    """How far this node lies from the topic's author."""
    log: Log = field(default_factory=Log)
    versions: dict[Cid, Topic] = field(default_factory=dict)
    """All known versions and the meta topic."""

    @property
    def target(self) -> Key:
        """The key that the tree grows towards: the author's."""
        return key_of(self.topic.author)

    @property
    def is_own(self) -> bool:
        """Whether this node is the topic's author."""
        return not self.own_distance


@dataclass(eq=False)
class TopicDirectory(Component):
    """Owns the replicas. `on_version` is called with a learned version's replica and its source."""

    _on_version: Callable[[TopicReplica, Peer], None]
    _replicas: dict[Cid, TopicReplica] = field(init=False, default_factory=dict)
    _by_version: dict[Cid, TopicReplica] = field(init=False, default_factory=dict)
    _wanted: dict[Cid, list[Callable[[Topic | None], None]]] = field(
        init=False, default_factory=dict
    )
    _searches: dict[Cid, int] = field(init=False, default_factory=dict)
    _found: dict[Cid, Topic] = field(init=False, default_factory=dict)
    """Descriptors that were found and have no replica yet."""
    _descriptor_bytes: int = field(init=False, default=0)
    """The size of the descriptors of all replicas."""

    # --- replicas ---

    @property
    def replicas(self) -> Mapping[Cid, TopicReplica]:
        """The replicas by their ids."""
        return self._replicas

    def get(self, id: Cid) -> TopicReplica | None:
        """Return the replica with an id."""
        return self._replicas.get(id)

    def of_version(self, cid: Cid) -> TopicReplica | None:
        """Return the replica that has a version or a meta topic."""
        return self._by_version.get(cid)

    def is_current(self, replica: TopicReplica) -> bool:
        """Whether this node still has a replica, which it may have dropped meanwhile."""
        return self._replicas.get(replica.id) is replica

    def add(self, topic: Topic, meta: Topic) -> TopicReplica:
        """Begin to replicate a topic."""
        distance = self._overlay.own.key ^ key_of(topic.author)
        replica = TopicReplica(meta.cid, topic, meta, distance)
        self._replicas[replica.id] = replica
        self.add_version(replica, meta)
        self.add_version(replica, topic)
        return replica

    def add_version(self, replica: TopicReplica, topic: Topic) -> None:
        """Add a version, which may be the newest."""
        if topic.cid not in replica.versions:
            self._descriptor_bytes += len(topic.block)
        replica.versions[topic.cid] = topic
        self._by_version[topic.cid] = replica
        if topic is not replica.meta and topic.version >= replica.topic.version:
            replica.topic = topic

    def remove(self, replica: TopicReplica) -> None:
        """Stop to replicate a topic."""
        if self._replicas.pop(replica.id, None) is None:
            return
        for cid, topic in replica.versions.items():
            self._by_version.pop(cid, None)
            self._descriptor_bytes -= len(topic.block)

    def store_state(self, replica: TopicReplica) -> None:
        """Store what has changed about a replica."""
        self._persistence.store_state(replica.id, replica.topic, replica.versions, replica.log)

    def with_replica(
        self,
        topic: Cid,
        then: Callable[[TopicReplica | None], None],
        peer: Peer | None = None,
        id: Cid | None = None,
    ) -> None:
        """Call `then` with the replica of a topic, or with None if the topic cannot be found.

        If an id is given, a topic with another id counts as not found.
        """
        replica = self._by_version.get(topic)
        if replica is not None:
            then(replica if id in (None, replica.id) else None)
        else:
            self.find(topic, partial(self._with_topic, then, peer, id), peer)

    def _with_topic(
        self,
        then: Callable[[TopicReplica | None], None],
        peer: Peer | None,
        id: Cid | None,
        topic: Topic | None,
    ) -> None:
        if topic is None or id not in (None, topic.stable_id):
            then(None)
        elif topic.meta is None:
            then(self._opened(topic, topic))
        else:
            self.find(topic.meta, partial(self._with_meta, then, topic), peer)

    def _with_meta(
        self, then: Callable[[TopicReplica | None], None], topic: Topic, meta: Topic | None
    ) -> None:
        if meta is None:
            then(None)
            return
        try:
            check_meta_topic(meta, topic)
        except RefusalError as error:
            self._permissions.refuse(error)
            then(None)
            return
        then(self._opened(topic, meta))

    def _opened(self, topic: Topic, meta: Topic) -> TopicReplica | None:
        replica = self._replicas.get(meta.cid)
        if replica is not None:
            self.learn(replica, topic)
            return replica
        if self.is_full or not self._has_room_for(topic, meta):
            self._permissions.count("too many topics")
            return None
        self._found.pop(topic.cid, None)
        self._found.pop(meta.cid, None)
        replica = self.add(topic, meta)
        self._persistence.store_topic(meta)
        self._persistence.store_topic(topic)
        self.store_state(replica)
        return replica

    @property
    def is_full(self) -> bool:
        """Whether this node replicates as many topics as it may."""
        has_room = self._descriptor_bytes < self._settings.descriptor_bytes_max
        return not has_room or len(self._replicas) >= self._settings.topic_count_max

    def _has_room_for(self, *topics: Topic) -> bool:
        size = self._descriptor_bytes + sum(len(topic.block) for topic in topics)
        return size <= self._settings.descriptor_bytes_max

    # --- versions ---

    def hear_of_version(self, replica: TopicReplica, cid: Cid, peer: Peer) -> None:
        """Learn a version that a peer has mentioned."""
        if cid not in replica.versions:
            self.find(cid, partial(self._on_mentioned, replica, peer), peer)

    def _on_mentioned(self, replica: TopicReplica, peer: Peer, topic: Topic | None) -> None:
        if topic is not None and self.is_current(replica):
            self.learn(replica, topic)
            # Events of this version could not be checked before.
            self._on_version(replica, peer)

    def have_versions(
        self, replica: TopicReplica, cids: Sequence[Cid], peer: Peer, then: Callable[[], None]
    ) -> None:
        """Learn those versions that can be found, from a peer that should have them."""
        if not cids:
            then()
            return
        open_count = len(cids)

        def on_found(topic: Topic | None) -> None:
            nonlocal open_count
            if topic is not None:
                self.learn(replica, topic)
            open_count -= 1
            if not open_count:
                then()

        for cid in cids:
            self.find(cid, on_found, peer)

    def learn(self, replica: TopicReplica, topic: Topic) -> bool:
        """Add a new version, or an old one that events were published in.

        Return whether it is a version of the topic.
        """
        if topic.cid in replica.versions:
            return True
        if not self.is_current(replica):
            return False
        try:
            if topic.version > replica.topic.version or topic.author != replica.topic.author:
                check_next_version(topic, replica.topic)
        except RefusalError as error:
            self._permissions.refuse(error)
            return False
        is_full = len(replica.versions) >= self._settings.version_count_max
        is_full = is_full or not self._has_room_for(topic)
        if topic.stable_id != replica.id or is_full:
            self._permissions.count("unauthorised")
            return False
        self.add_version(replica, topic)
        self._persistence.store_topic(topic)
        self.store_state(replica)
        return True

    # --- descriptors ---

    def find(
        self, cid: Cid, then: Callable[[Topic | None], None], peer: Peer | None = None
    ) -> None:
        """Find a descriptor: ask a peer that should have it, then search the overlay."""
        known = self._known(cid) or self._found.get(cid)
        if known is not None:
            then(known)
            return
        waiting = self._wanted.get(cid)
        if waiting is not None:
            waiting.append(then)
            return
        if len(self._wanted) >= WANTED_MAX:
            self._permissions.count("too many searches")
            then(None)
            return
        self._wanted[cid] = [then]
        self._searches[cid] = 0
        if peer is not None:
            self._outbox.queue(peer, WantBlocks((cid,)))
            self._outbox.set_timer(("find", cid), RETRY_US)
        else:
            self._search(cid)

    def _known(self, cid: Cid) -> Topic | None:
        replica = self._by_version.get(cid)
        return None if replica is None else replica.versions[cid]

    def _search(self, cid: Cid) -> None:
        if not self._overlay.is_ready:
            self._outbox.set_timer(("find", cid), RETRY_US)
            return
        self._searches[cid] += 1
        self._overlay.get(cid, self._on_got)

    def _on_got(self, got: Got) -> None:
        if got.value is not None:
            self._on_block(got.value)
        if got.name not in self._wanted:
            return
        if self._searches[got.name] >= SEARCHES_MAX:
            self._settle(got.name, None)
        else:
            self._outbox.set_timer(("find", got.name), RETRY_US)

    def on_timer(self, cid: Cid) -> None:
        """Search the overlay for a descriptor that no peer has sent."""
        if cid in self._wanted:
            self._search(cid)

    def on_want(self, peer: Peer, message: WantBlocks) -> None:
        """Send a peer the descriptors that it asks for, now or when they are found."""
        for cid in message.cids[:ANSWERED_MAX]:
            known = self._known(cid)
            if known is not None:
                self._describe(peer, known)
            elif cid in self._wanted and len(self._wanted[cid]) < WANTED_MAX:
                self._wanted[cid].append(partial(self._describe, peer))

    def _describe(self, peer: Peer, topic: Topic | None) -> None:
        if topic is not None:
            self._outbox.queue(peer, Described((topic.block,)))

    def on_described(self, blocks: Iterable[bytes]) -> None:
        """Take descriptors that this node asked for."""
        for block in blocks:
            self._on_block(block)

    def _on_block(self, block: bytes) -> None:
        try:
            topic = read_topic(block)
            if topic.cid not in self._wanted:
                return
            self._permissions.check_topic(topic)
        except RefusalError as error:
            self._permissions.refuse(error)
            return
        self._settle(topic.cid, topic)

    def _settle(self, cid: Cid, topic: Topic | None) -> None:
        if topic is not None and len(self._found) < WANTED_MAX:
            self._found[cid] = topic
        del self._searches[cid]
        self._outbox.cancel_timer(("find", cid))
        for then in self._wanted.pop(cid):
            then(topic)
        self._found.pop(cid, None)

    def check(self) -> None:
        """Assert that the indexes agree and that each replica's versions are of one topic."""
        assert len(self._replicas) <= self._settings.topic_count_max
        assert self._wanted.keys() == self._searches.keys()
        assert len(self._wanted) <= WANTED_MAX
        indexed = 0
        for id, replica in self._replicas.items():
            assert replica.id == id == replica.meta.cid
            assert replica.versions[replica.topic.cid] is replica.topic
            for cid, topic in replica.versions.items():
                assert self._by_version[cid] is replica
                assert topic.stable_id == id
                assert topic.author == replica.topic.author
                assert topic is replica.meta or topic.version <= replica.topic.version
            indexed += len(replica.versions)
            replica.log.check()
        assert indexed == len(self._by_version)
        versions = [v for replica in self._replicas.values() for v in replica.versions.values()]
        assert self._descriptor_bytes == sum(len(version.block) for version in versions)
