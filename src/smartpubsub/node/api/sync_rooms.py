"""Topics and groups with blocking methods."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from smartpubsub.node.api.group import Group
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.node.api.sync_subscription import SyncSubscription
from smartpubsub.node.api.threads import NodeThread
from smartpubsub.node.api.topic import Topic
from smartpubsub.node.api.topic_events import Exported, History, TopicReceipt
from smartpubsub.node.api.topics import Stock
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.pulsarcast import topics as descriptors

T = TypeVar("T")


class _Bridged:
    def __init__(self, thread: NodeThread) -> None:
        self._thread = thread

    def _do(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._thread.call(function)


class SyncTopic(_Bridged):
    """A topic with blocking methods."""

    def __init__(self, thread: NodeThread, topic: Topic) -> None:
        super().__init__(thread)
        self._topic = topic

    @property
    def id(self) -> str:
        """The topic's content id."""
        return self._topic.id

    def stock(self) -> Stock:
        """What this node keeps of it."""
        return self._thread.look(self._topic.stock)

    def subscribe(self, **options: Any) -> SyncSubscription:
        """Subscribe, as `Topic.subscribe` does."""
        return SyncSubscription(self._thread, self._topic.subscribe(**options))

    def keep(self, **options: Any) -> SyncSubscription:
        """Make a kept subscription, as `Topic.keep` does."""
        return SyncSubscription(self._thread, self._topic.keep(**options))

    def show(self) -> descriptors.Topic:
        """The newest version of its descriptor."""
        return self._do(self._topic.show)

    def versions(self) -> list[descriptors.Topic]:
        """All versions of its descriptor, the newest first."""
        return self._do(self._topic.versions)

    def update(self, **options: Any) -> descriptors.Topic:
        """Make a new version of it, as `Topic.update` does."""
        return self._do(partial(self._topic.update, **options))

    def pin(self) -> None:
        """Keep all its events on this node, whatever the limits are."""
        self._do(self._topic.pin)

    def unpin(self) -> None:
        """Apply the limits of this node to it again."""
        self._do(self._topic.unpin)

    def publish(self, payload: bytes, **options: Any) -> TopicReceipt:
        """Publish in it, as `Topic.publish` does."""
        return self._do(partial(self._topic.publish, payload, **options))

    def history(self, **options: Any) -> History:
        """Read its events, as `Topic.history` does."""
        return self._do(partial(self._topic.history, **options))

    def export(self, path: Path | str) -> Exported:
        """Write all its blocks to a CAR file, as `Topic.export` does."""
        return self._do(partial(self._topic.export, path))


class SyncGroup(_Bridged):
    """A group with blocking methods."""

    def __init__(self, thread: NodeThread, group: Group) -> None:
        super().__init__(thread)
        self._group = group

    @property
    def predicate(self) -> Predicate:
        """The predicate that all its events match."""
        return self._group.predicate

    def create(self, **options: Any) -> SyncGroup:
        """Create it, as `Group.create` does; `accept` is called in the node's thread."""
        self._do(partial(self._group.create, **options))
        return self

    def invite(self, peer_id: str) -> bytes:
        """Make an invitation for a peer."""
        return self._thread.look(self._group.invite, peer_id)

    def join(
        self,
        wanted: Predicate | str | None = None,
        *,
        beside: SyncSubscription | None = None,
        **options: Any,
    ) -> SyncSubscription:
        """Join it, as `Group.join` does."""
        other = None if beside is None else beside.subscription
        membership = self._group.join(wanted, beside=other, **options)
        return SyncSubscription(self._thread, membership)

    def advertise(self) -> None:
        """Advertise it, again if it is advertised already."""
        self._do(self._group.advertise)

    def publish(self, event: Predicate | str, payload: bytes = b"", **options: Any) -> Receipt:
        """Publish in it, as `Group.publish` does."""
        return self._do(partial(self._group.publish, event, payload, **options))

    def leave(self) -> int:
        """End all memberships of this node in it; return how many there were."""
        return self._do(self._group.leave)
