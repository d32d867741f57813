"""The topics that this node replicates, their versions, and the search for descriptors.

A topic, all its versions and its meta topic share one tree and one log. The content id of the meta
topic names all of them. Descriptors come from the peer that mentioned them, or from the overlay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.keys import Key, key_of
from smartpubsub.kademlia.ledger import NOBODY, Account
from smartpubsub.kademlia.queries import Got
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.fields import RefusalError
from smartpubsub.protocols.pulsarcast.log import Log
from smartpubsub.protocols.pulsarcast.messages import Described, WantBlocks
from smartpubsub.protocols.pulsarcast.permissions import (
    check_meta_topic,
    check_next_version,
)
from smartpubsub.protocols.pulsarcast.topics import Topic, read_topic
from smartpubsub.seam import Peer

RETRY_US = 3 * SECOND
SEARCHES_MAX = 10
"""How often to search the overlay for a descriptor before it counts as not found."""
QUESTION_SEARCHES_MAX = 3
"""The same for a question of this node's user, who waits for the answer."""
WANTED_MAX = 10_000
SEARCHES_OF_PEER_MAX = 4
"""Descriptors that one peer has mentioned and not sent, for which to search the overlay at a time:
a search makes many nodes work."""
WAITING_BYTES_MAX = 64 << 20
"""Of what waits for descriptors; one peer may have an eighth."""
WAITING_BYTES = 4 << 10
"""What each thing that waits counts, besides the events in it."""
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


Then: TypeAlias = Callable[[Topic | None], None]
"""Called with a descriptor, or with None if it cannot be found."""


class _Waiting(NamedTuple):
    then: Then
    user: Peer
    """The peer whose message waits; empty for the node itself."""
    size: int
    searches_max: int


@dataclass(slots=True, eq=False)
class _Search:
    """A descriptor that this node wants."""

    peer: Peer
    """The peer that has mentioned it; empty if the node itself wants it."""
    waiting: list[_Waiting] = field(default_factory=list)
    tries: int = 0
    """How often the overlay was searched for it."""


@dataclass(eq=False)
class TopicDirectory(Component):
    """Owns the replicas. `on_version` is called with a learned version's replica and its source.

    Descriptors are charged to their authors, and what waits for one to the peer that has sent it.
    """

    _on_version: Callable[[TopicReplica, Peer], None]
    _descriptors: Account
    _waiting: Account
    _replicas: dict[Cid, TopicReplica] = field(init=False, default_factory=dict)
    _by_version: dict[Cid, TopicReplica] = field(init=False, default_factory=dict)
    _wanted: dict[Cid, _Search] = field(init=False, default_factory=dict)
    _searches_of: Counter[Peer] = field(init=False, default_factory=Counter)
    """For how many descriptors that a peer has mentioned the overlay is searched."""
    _found: dict[Cid, Topic] = field(init=False, default_factory=dict)
    """Descriptors that were found and have no replica yet."""

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
            self._descriptors.change(topic.author, len(topic.block))
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
            self._descriptors.change(topic.author, -len(topic.block))

    def store_state(self, replica: TopicReplica) -> None:
        """Store what has changed about a replica."""
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

        If an id is given, a topic with another id counts as not found. What waits for it meanwhile
        has a size.
        """
        replica = self._by_version.get(topic)
        if replica is not None:
            then(replica if id in (None, replica.id) else None)
        else:
            found = partial(self._with_topic, then, peer, id, size, searches_max)
            self.find(topic, found, peer, size, searches_max)

    def _with_topic(
        self,
        then: Callable[[TopicReplica | None], None],
        peer: Peer | None,
        id: Cid | None,
        size: int,
        searches_max: int,
        topic: Topic | None,
    ) -> None:
        if topic is None or id not in (None, topic.stable_id):
            then(None)
        elif topic.meta is None:
            then(self._opened(topic, topic))
        else:
            found = partial(self._with_meta, then, topic)
            self.find(topic.meta, found, peer, size, searches_max)

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
            self._outbox.reject("too many topics")
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
        account = self._descriptors
        has_room = account.size < account.size_max
        return not has_room or len(self._replicas) >= self._settings.topic_count_max

    def _has_room_for(self, *topics: Topic) -> bool:
        """Whether there is room for descriptors of one author."""
        account, size = self._descriptors, sum(len(topic.block) for topic in topics)
        has_room = account.size + size <= account.size_max
        if has_room and account.has_room_for(topics[0].author, size):
            return True
        account.refuse()
        return False

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
            self._outbox.reject("unauthorised")
            return False
        self.add_version(replica, topic)
        self._persistence.store_topic(topic)
        self.store_state(replica)
        return True

    # --- descriptors ---

    def find(
        self,
        cid: Cid,
        then: Then,
        peer: Peer | None = None,
        size: int = 0,
        searches_max: int = SEARCHES_MAX,
    ) -> None:
        """Find a descriptor: ask a peer that should have it, then search the overlay."""
        known = self._known(cid) or self._found.get(cid)
        if known is not None:
            then(known)
            return
        search, user = self._wanted.get(cid), peer or NOBODY
        is_full = search is None and len(self._wanted) >= WANTED_MAX
        if is_full or not self._may_wait(user, size):
            self._outbox.reject("too many searches")
            then(None)
            return
        if search is not None:
            self._wait(search, then, user, size, searches_max)
            if peer is None:
                self._make_own(search)
            return
        self._wanted[cid] = search = _Search(user)
        self._wait(search, then, user, size, searches_max)
        if peer is not None:
            self._outbox.queue(peer, WantBlocks((cid,)))
            self._outbox.set_timer(("find", cid), RETRY_US)
        else:
            self._search(cid, search)

    def _may_wait(self, user: Peer, size: int) -> bool:
        """Whether a message of a peer may wait for a descriptor; this node's own calls may."""
        account, size = self._waiting, size + WAITING_BYTES
        has_room = account.size + size <= account.size_max and account.has_room_for(user, size)
        if user and not has_room:
            account.refuse()
        return has_room or not user

    def _wait(
        self,
        search: _Search,
        then: Then,
        user: Peer,
        size: int,
        searches_max: int = SEARCHES_MAX,
    ) -> None:
        search.waiting.append(_Waiting(then, user, size + WAITING_BYTES, searches_max))
        self._waiting.change(user, size + WAITING_BYTES)

    def _make_own(self, search: _Search) -> None:
        """This node itself wants a descriptor that a peer has mentioned."""
        if search.peer and search.tries:
            self._leave_search(search)
        search.peer = NOBODY

    def _known(self, cid: Cid) -> Topic | None:
        replica = self._by_version.get(cid)
        return None if replica is None else replica.versions[cid]

    def _search(self, cid: Cid, search: _Search) -> None:
        if not self._overlay.is_ready:
            self._outbox.set_timer(("find", cid), RETRY_US)
            return
        if search.peer and not search.tries:
            if self._searches_of[search.peer] >= SEARCHES_OF_PEER_MAX:
                self._outbox.reject("too many searches")
                self._settle(cid, None)
                return
            self._searches_of[search.peer] += 1
        search.tries += 1
        self._overlay.get(cid, self._on_got)

    def _leave_search(self, search: _Search) -> None:
        self._searches_of[search.peer] -= 1
        if not self._searches_of[search.peer]:
            del self._searches_of[search.peer]

    def _on_got(self, got: Got) -> None:
        if got.value is not None:
            self._on_block(got.value)
        search = self._wanted.get(got.name)
        if search is None:
            return
        late = [waiting for waiting in search.waiting if search.tries >= waiting.searches_max]
        if len(late) == len(search.waiting):
            self._settle(got.name, None)
            return
        search.waiting = [waiting for waiting in search.waiting if waiting not in late]
        self._outbox.set_timer(("find", got.name), RETRY_US)
        self._end_waiting(late, None)

    def on_timer(self, cid: Cid) -> None:
        """Search the overlay for a descriptor that no peer has sent."""
        search = self._wanted.get(cid)
        if search is not None:
            self._search(cid, search)

    def on_want(self, peer: Peer, message: WantBlocks) -> None:
        """Send a peer the descriptors that it asks for, now or when they are found."""
        for cid in message.cids[:ANSWERED_MAX]:
            known = self._known(cid)
            if known is not None:
                self._describe(peer, known)
            elif cid in self._wanted and self._may_wait(peer, 0):
                self._wait(self._wanted[cid], partial(self._describe, peer), peer, 0)

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
        search = self._wanted.pop(cid)
        if search.peer and search.tries:
            self._leave_search(search)
        self._outbox.cancel_timer(("find", cid))
        self._end_waiting(search.waiting, topic)
        self._found.pop(cid, None)

    def _end_waiting(self, ended: Sequence[_Waiting], topic: Topic | None) -> None:
        for waiting in ended:
            self._waiting.change(waiting.user, -waiting.size)
        for waiting in ended:
            waiting.then(topic)

    def check(self) -> None:
        """Assert that the indexes agree and that each replica's versions are of one topic."""
        assert len(self._replicas) <= self._settings.topic_count_max
        assert len(self._wanted) <= WANTED_MAX
        searches = self._wanted.values()
        assert self._searches_of == Counter(s.peer for s in searches if s.peer and s.tries)
        assert self._waiting.size == sum(w.size for s in searches for w in s.waiting)
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
        assert self._descriptors.size == sum(len(version.block) for version in versions)
