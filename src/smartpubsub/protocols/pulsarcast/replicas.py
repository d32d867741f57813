"""The topics that this node replicates, and their versions.

A topic, all its versions and its meta topic share one tree and one log. The content id of the meta
topic names all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.keys import Key, key_of
from smartpubsub.kademlia.ledger import Account
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.descriptor_search import SEARCHES_MAX, DescriptorSearch
from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.pulsarcast.fields import RefusalError
from smartpubsub.protocols.pulsarcast.log import Log
from smartpubsub.protocols.pulsarcast.permissions import check_meta_topic, check_next_version
from smartpubsub.protocols.pulsarcast.topics import Topic
from smartpubsub.seam import Peer


@dataclass(slots=True, eq=False)
class TopicReplica:
    """A topic as this node knows it: its versions and its events."""

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
class TopicReplicas(Component):
    """Owns the replicas. `on_version` is called with a learned version's replica and its source.

    Descriptors are charged to their authors.
    """

    _search: DescriptorSearch
    _on_version: Callable[[TopicReplica, Peer], None]
    _descriptors: Account
    _by_id: dict[Cid, TopicReplica] = field(init=False, default_factory=dict)
    _by_version: dict[Cid, TopicReplica] = field(init=False, default_factory=dict)

    @property
    def by_id(self) -> Mapping[Cid, TopicReplica]:
        """The replicas by their ids."""
        return self._by_id

    def get(self, id: Cid) -> TopicReplica | None:
        """Return the replica with an id."""
        return self._by_id.get(id)

    def of_version(self, cid: Cid) -> TopicReplica | None:
        """Return the replica that has a version or a meta topic."""
        return self._by_version.get(cid)

    def version(self, cid: Cid) -> Topic | None:
        """Return a version or a meta topic that this node has."""
        replica = self._by_version.get(cid)
        return None if replica is None else replica.versions[cid]

    def is_current(self, replica: TopicReplica) -> bool:
        """Whether this node still has a replica, which it may have dropped meanwhile."""
        return self._by_id.get(replica.id) is replica

    def add(self, topic: Topic, meta: Topic) -> TopicReplica:
        """Begin to replicate a topic."""
        distance = self._overlay.own.key ^ key_of(topic.author)
        replica = TopicReplica(meta.cid, topic, meta, distance)
        self._by_id[replica.id] = replica
        self.add_version(replica, meta)
        self.add_version(replica, topic)
        return replica

    def add_version(self, replica: TopicReplica, topic: Topic) -> None:
        """Add a version, which may be the newest."""
        if topic.cid not in replica.versions:
            self._descriptors.change(topic.author, len(topic.block))
        replica.versions[topic.cid] = topic
        self._by_version[topic.cid] = replica
        if topic is not replica.meta and topic.version >= replica.topic.version:
            replica.topic = topic

    def remove(self, replica: TopicReplica) -> None:
        """Stop replicating a topic."""
        if self._by_id.pop(replica.id, None) is None:
            return
        for cid, topic in replica.versions.items():
            self._by_version.pop(cid, None)
            self._descriptors.change(topic.author, -len(topic.block))

    def store_state(self, replica: TopicReplica) -> None:
        """Store the state of a replica that has changed."""
        self._persistence.store_state(replica.id, replica.topic, replica.versions, replica.log)

    def with_replica(
        self,
        topic: Cid,
        then: Callable[[TopicReplica | None], None],
        peer: Peer | None = None,
        id: Cid | None = None,
        size: int = 0,
        searches_max: int = SEARCHES_MAX,
    ) -> None:
        """Call `then` with the replica of a topic, or with None if the topic cannot be found.

        If an id is given, a topic with another id counts as not found. `size` is the size of the
        message that waits for it.
        """
        replica = self._by_version.get(topic)
        if replica is not None:
            then(replica if id in (None, replica.id) else None)
            return
        find = partial(self._search.find, peer=peer, size=size, searches_max=searches_max)

        def on_topic(found: Topic | None) -> None:
            if found is None or id not in (None, found.stable_id):
                then(None)
            elif found.meta is None:
                then(self._find_or_add(found, found))
            else:
                find(found.meta, lambda meta: then(self._find_or_add(found, meta)))

        find(topic, on_topic)

    def _find_or_add(self, topic: Topic, meta: Topic | None) -> TopicReplica | None:
        """Return the replica of a topic, a new one if need be; None if that is refused."""
        if meta is None:
            return None
        try:
            if meta is not topic:
                check_meta_topic(meta, topic)
        except RefusalError as error:
            self._permissions.refuse(error)
            return None
        replica = self._by_id.get(meta.cid)
        if replica is not None:
            self.learn(replica, topic)
            return replica
        if self.is_full or not self._has_room_for(topic, meta):
            self._outbox.reject("too many topics")
            return None
        replica = self.add(topic, meta)
        self._persistence.store_topic(meta)
        self._persistence.store_topic(topic)
        self.store_state(replica)
        return replica

    @property
    def is_full(self) -> bool:
        """Whether this node replicates as many topics as it may."""
        account = self._descriptors
        has_room = account.size < account.size_max
        return not has_room or len(self._by_id) >= self._settings.topic_count_max

    def _has_room_for(self, *topics: Topic) -> bool:
        """Whether there is room for descriptors of one author."""
        if self._descriptors.fits(topics[0].author, sum(len(topic.block) for topic in topics)):
            return True
        self._descriptors.refuse()
        return False

    # --- versions ---

    def hear_of_version(self, replica: TopicReplica, cid: Cid, peer: Peer) -> None:
        """Learn a version that a peer has mentioned."""
        if cid not in replica.versions:
            self._search.find(cid, partial(self._on_mentioned, replica, peer), peer)

    def hear_of_event_version(self, cid: Cid, peer: Peer) -> None:
        """Learn the version of an event that a peer has sent, whichever topic it is of."""
        self._search.find(cid, partial(self._on_event_version, peer), peer)

    def _on_event_version(self, peer: Peer, topic: Topic | None) -> None:
        replica = None if topic is None else self._by_id.get(topic.stable_id)
        if replica is not None:
            self._on_mentioned(replica, peer, topic)

    def _on_mentioned(self, replica: TopicReplica, peer: Peer, topic: Topic | None) -> None:
        if topic is not None and self.is_current(replica):
            self.learn(replica, topic)
            # Events of this version could not be checked before.
            self._on_version(replica, peer)

    def have_versions_of(
        self,
        replica: TopicReplica,
        events: Iterable[TopicEvent],
        peer: Peer,
        then: Callable[[], None],
    ) -> None:
        """Learn the versions of events that a peer has sent, as far as found; then call `then`."""
        versions = dict.fromkeys(event.topic for event in events)
        cids = [cid for cid in versions if cid not in replica.versions]
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
            self._search.find(cid, on_found, peer)

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
            self._outbox.reject("unauthorised")
            return False
        self.add_version(replica, topic)
        self._persistence.store_topic(topic)
        self.store_state(replica)
        return True

    def check(self) -> None:
        """Assert that the indexes agree and that each replica's versions are of one topic."""
        assert len(self._by_id) <= self._settings.topic_count_max
        indexed = 0
        for id, replica in self._by_id.items():
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
        versions = [v for replica in self._by_id.values() for v in replica.versions.values()]
        assert self._descriptors.size == sum(len(version.block) for version in versions)
