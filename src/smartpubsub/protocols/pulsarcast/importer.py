"""Import of blocks from a file: the node checks them like blocks of peers, and pins the topics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.dissemination import TopicDissemination
from smartpubsub.protocols.pulsarcast.fields import RefusalError
from smartpubsub.protocols.pulsarcast.membership import Membership
from smartpubsub.protocols.pulsarcast.permissions import check_meta_topic
from smartpubsub.protocols.pulsarcast.replicas import TopicReplica, TopicReplicas
from smartpubsub.protocols.pulsarcast.topics import Topic, read_topic
from smartpubsub.protocols.runtime.bounded import BoundedDict

META_TOPICS_MAX = 10_000


@dataclass(eq=False)
class Importer(Component):
    """Adds topics and their events, and pins the topics."""

    _replicas: TopicReplicas
    _membership: Membership
    _dissemination: TopicDissemination
    _metas: BoundedDict[Cid, Topic] = field(
        init=False, default_factory=lambda: BoundedDict(META_TOPICS_MAX)
    )
    """Meta topics whose topics have not been read yet."""

    def take(self, blocks: Iterable[bytes]) -> int:
        """Take blocks, descriptors before their events; return how many were valid."""
        changed: dict[Cid, TopicReplica] = {}
        valid = sum(self._take_one(block, changed) for block in blocks)
        for replica in changed.values():
            replica.log.audit()  # A file may have only a part of the events.
        return valid

    def _take_one(self, block: bytes, changed: dict[Cid, TopicReplica]) -> bool:
        try:
            topic = read_topic(block)
        except RefusalError:
            return self._take_event(block, changed)
        try:
            self._take_topic(topic)
        except RefusalError as error:
            self._permissions.refuse(error)
            return False
        return True

    def _take_topic(self, topic: Topic) -> None:
        self._permissions.check_topic(topic)
        if topic.meta is None:
            self._metas[topic.cid] = topic
            return
        replica = self._replicas.get(topic.meta)
        if replica is None:
            meta = self._metas.get(topic.meta)
            if meta is None or self._replicas.is_full:
                self._outbox.reject("incomplete")
                return
            check_meta_topic(meta, topic)
            replica = self._replicas.add(topic, meta)
            replica.log.settle()
            self._persistence.store_topic(meta)
        self._replicas.add_version(replica, topic)
        replica.log.pin(True)
        self._persistence.store_topic(topic)
        self._replicas.store_state(replica)
        self._membership.attach(replica)

    def _take_event(self, block: bytes, changed: dict[Cid, TopicReplica]) -> bool:
        event = self._permissions.read_event(block)
        if event is None:
            return False
        replica = self._replicas.of_version(event.topic)
        if replica is None:
            self._outbox.reject("incomplete")
            return False
        if event.cid in replica.log:
            return True
        changed[replica.id] = replica
        return self._dissemination.accept_imported(replica, event)
