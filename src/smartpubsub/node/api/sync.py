"""A node for scripts and notebooks: the same, without `async`.

with SyncNode(data="~/.smartpubsub") as node:
    with node.subscribe("portugal/weather") as events:
        node.publish("portugal/weather/temp=24", b"...")
        print(events.get(timeout_s=5))
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Any

from smartpubsub.node.api.arrivals import SubscriptionInfo
from smartpubsub.node.api.event_records import EventInfo
from smartpubsub.node.api.groups import FoundGroup, KnownGroup
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.node.api.sync_rooms import SyncGroup, SyncTopic
from smartpubsub.node.api.sync_subscription import SyncSubscription
from smartpubsub.node.api.threads import NodeThread
from smartpubsub.node.api.topics import KnownTopic
from smartpubsub.predicates import Predicate


class SyncNode:
    """A node with blocking methods."""

    def __init__(self, **options: Any) -> None:
        self._thread = NodeThread(**options)

    def __enter__(self) -> SyncNode:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.stop()

    @property
    def peer_id(self) -> str:
        """The node's peer id in libp2p's notation."""
        return self._thread.node.peer_id

    @property
    def addresses(self) -> list[str]:
        """The node's addresses, each with its peer id."""
        return self._thread.node.addresses

    def publish(self, predicate: Predicate | str, payload: bytes = b"", **options: Any) -> Receipt:
        """Publish an event, as `Node.publish` does."""
        return self._thread.call(partial(self._thread.node.publish, predicate, payload, **options))

    def event(self, id: str) -> EventInfo:
        """Tell what this node knows of an event, as `Node.event` does."""
        return self._thread.look(self._thread.node.event, id)

    def subscribe(self, predicate: Predicate | str, **options: Any) -> SyncSubscription:
        """Make a subscription, as `Node.subscribe` does."""
        return SyncSubscription(self._thread, self._thread.node.subscribe(predicate, **options))

    def unsubscribe(self, number: int) -> None:
        """End a subscription by its number, whether or not it has a reader."""
        self._thread.call(self._thread.node.unsubscribe, number)

    def subscriptions(self) -> list[SubscriptionInfo]:
        """List the node's subscriptions, as `Node.subscriptions` does."""
        return self._thread.look(self._thread.node.subscriptions)

    def group(self, predicate: Predicate | str, owner: str | None = None) -> SyncGroup:
        """A group of this node, or of the node with this address or peer id."""
        return SyncGroup(self._thread, self._thread.node.group(predicate, owner))

    def groups(self) -> list[KnownGroup]:
        """List the groups that the node owns or is a member of."""
        return self._thread.look(self._thread.node.groups)

    def search_groups(self, predicate: Predicate | str) -> list[FoundGroup]:
        """Find the advertised groups that have every attribute of a predicate."""
        return self._thread.call(self._thread.node.search_groups, predicate)

    def create_topic(self, name: str, **options: Any) -> SyncTopic:
        """Create a topic, as `Node.create_topic` does."""
        made = self._thread.call(partial(self._thread.node.create_topic, name, **options))
        return SyncTopic(self._thread, made)

    def topics(self) -> list[KnownTopic]:
        """List the topics that the node knows, as `Node.topics` does."""
        return self._thread.look(self._thread.node.topics)

    def topic(self, id: str) -> SyncTopic:
        """A topic by its content id."""
        return SyncTopic(self._thread, self._thread.node.topic(id))

    def import_blocks(self, blocks: Sequence[bytes]) -> int:
        """Store the blocks of a CAR file; return how many were valid."""
        return self._thread.call(self._thread.node.import_blocks, blocks)
