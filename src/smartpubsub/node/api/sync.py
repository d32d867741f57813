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
    """A node whose methods wait until they are done."""

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
        """Who the node is, as libp2p writes it."""
        return self._thread.node.peer_id

    @property
    def addresses(self) -> list[str]:
        """Where the node can be reached, each with its peer id."""
        return self._thread.node.addresses

    def publish(self, predicate: Predicate | str, payload: bytes = b"", **options: Any) -> Receipt:
        """Publish an event, as `Node.publish` does."""
        return self._thread.call(partial(self._thread.node.publish, predicate, payload, **options))

    def event(self, id: str) -> EventInfo:
        """Tell what this node knows of an event, as `Node.event` does."""
        return self._thread.look(self._thread.node.event, id)

    def subscribe(self, predicate: Predicate | str, **options: Any) -> SyncSubscription:
        """A subscription, which begins when it is entered as a context manager."""
        return SyncSubscription(self._thread, self._thread.node.subscribe(predicate, **options))

    def unsubscribe(self, number: int) -> None:
        """End a subscription by its number, also one that nobody takes events of."""
        self._thread.call(self._thread.node.unsubscribe, number)

    def subscriptions(self) -> list[SubscriptionInfo]:
        """The node's subscriptions, as `Node.subscriptions` lists them."""
        return self._thread.look(self._thread.node.subscriptions)

    def group(self, predicate: Predicate | str, owner: str | None = None) -> SyncGroup:
        """A group of this node's, or of another whose address or peer id is given."""
        return SyncGroup(self._thread, self._thread.node.group(predicate, owner))

    def groups(self) -> list[KnownGroup]:
        """The groups that the node owns, and those that it is in."""
        return self._thread.look(self._thread.node.groups)

    def search_groups(self, predicate: Predicate | str) -> list[FoundGroup]:
        """The groups that are advertised and have every attribute that is searched for."""
        return self._thread.call(self._thread.node.search_groups, predicate)

    def create_topic(self, name: str, **options: Any) -> SyncTopic:
        """Make a topic of this node's, as `Node.create_topic` does."""
        made = self._thread.call(partial(self._thread.node.create_topic, name, **options))
        return SyncTopic(self._thread, made)

    def topics(self) -> list[KnownTopic]:
        """The topics that the node has to do with, as `Node.topics` lists them."""
        return self._thread.look(self._thread.node.topics)

    def topic(self, id: str) -> SyncTopic:
        """A topic by its content id, whoever has made it."""
        return SyncTopic(self._thread, self._thread.node.topic(id))

    def import_blocks(self, blocks: Sequence[bytes]) -> int:
        """Take topics and events from a CAR file, and keep them; how many blocks were good."""
        return self._thread.call(self._thread.node.import_blocks, blocks)
