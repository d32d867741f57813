"""The events that this node stores, and their retention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.pulsarcast.replicas import TopicReplica, TopicReplicas
from smartpubsub.protocols.pulsarcast.settings import Retention


@dataclass(eq=False)
class EventStore(Component):
    """Adds events to logs and storage, and prunes them; `on_pruned` is called with pruned ones."""

    _replicas: TopicReplicas
    _on_pruned: Callable[[Sequence[TopicEvent]], None]
    stored_bytes: int = field(init=False, default=0)
    """The size of all events of all topics."""

    def add(self, replica: TopicReplica, event: TopicEvent) -> list[TopicEvent]:
        """Add an event; return the events below which nothing is missing any more."""
        whole = replica.log.add(event, is_chained=replica.topic.rules.is_chained)
        self.stored_bytes += len(event.block)
        self._persistence.store_event(event)
        return whole

    def restore(self, event: TopicEvent) -> None:
        """Add an event that was in storage."""
        replica = self._replicas.of_version(event.topic)
        if replica is not None:
            replica.log.add(event)
            self.stored_bytes += len(event.block)

    def make_room_for(self, event: TopicEvent) -> bool:
        """Prune the largest topics until an event fits; return whether it does."""
        while (excess := self._excess(event)) > 0:
            unpinned = [r for r in self._replicas.by_id.values() if not r.log.is_pinned]
            largest = max(unpinned, key=lambda replica: replica.log.bytes, default=None)
            if largest is None or not largest.log.bytes:
                return False
            size = largest.log.bytes
            bytes_max = max(0, size - max(excess, size // 16))
            self._prune(largest, replace(self._settings.retention, byte_count_max=bytes_max))
        return True

    def _excess(self, event: TopicEvent) -> int:
        return self.stored_bytes + len(event.block) - self._settings.stored_bytes_max

    def prune_if_too_large(self, replica: TopicReplica) -> None:
        """Remove a topic's oldest events if there are too many."""
        if replica.log.is_too_large(self._settings.retention):
            self.prune(replica)

    def prune(self, replica: TopicReplica) -> None:
        """Remove a topic's oldest events as retention demands, unless the topic is pinned."""
        if not replica.log.is_pinned:
            self._prune(replica, self._settings.retention)

    def _prune(self, replica: TopicReplica, retention: Retention) -> None:
        pruned = replica.log.prune(retention, self._outbox.now)
        if pruned:
            self._forget(pruned)
            self._on_pruned(pruned)
            self._replicas.store_state(replica)

    def _forget(self, events: Iterable[TopicEvent]) -> None:
        for event in events:
            self.stored_bytes -= len(event.block)
            self._persistence.forget_event(event)

    def drop(self, replica: TopicReplica) -> None:
        """Remove a replica and everything of it from storage."""
        self._replicas.remove(replica)
        for cid in replica.versions:
            self._persistence.forget_topic(cid)
        self._forget(replica.log.events.values())
        self._persistence.forget_state(replica.id)

    def check(self) -> None:
        """Assert that the byte count is that of all logs."""
        assert self.stored_bytes <= self._settings.stored_bytes_max
        logs = [replica.log for replica in self._replicas.by_id.values()]
        assert self.stored_bytes == sum(log.bytes for log in logs)
