"""The newest version of a topic, and all versions before it.

A node in the tree hears of every version, and a node that joins learns the newest from its parent.
So calls that depend on the newest version wait until the node has its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.descriptor_search import (
    QUESTION_SEARCHES_MAX,
    DescriptorSearch,
)
from smartpubsub.protocols.pulsarcast.membership import Membership
from smartpubsub.protocols.pulsarcast.replicas import (
    TopicReplica,
    TopicReplicas,
)
from smartpubsub.protocols.pulsarcast.results import TopicDescribed
from smartpubsub.protocols.pulsarcast.settings import STAY_US
from smartpubsub.protocols.pulsarcast.topics import Topic

PLACE_TIMEOUT_US = 20 * SECOND
"""How long to wait for a place in the tree before using the known versions."""

Calls = dict[Cid, list[Callable[[], None]]]


@dataclass(eq=False)
class Versions(Component):
    """Runs calls once the newest version of a topic is known, and describes topics."""

    _replicas: TopicReplicas
    _membership: Membership
    _descriptors: DescriptorSearch
    _waiting: Calls = field(init=False, default_factory=dict)
    """Calls that run when the newest version is known, or at the timeout."""
    _held: Calls = field(init=False, default_factory=dict)
    """Calls that run when the newest version is known, and not before."""

    # --- the newest version ---

    def when_settled(self, replica: TopicReplica, then: Callable[[], None]) -> None:
        """Run a call when this node knows the newest version, or at the timeout."""
        if self._membership.is_attached(replica):
            then()
            return
        if replica.id not in self._waiting:
            self._outbox.set_timer(("describe", replica.id), PLACE_TIMEOUT_US)
        self._waiting.setdefault(replica.id, []).append(then)
        self._membership.stay(replica, STAY_US)
        self._membership.attach(replica)

    def hold(self, replica: TopicReplica, then: Callable[[], None]) -> None:
        """Run a call when this node has a place and knows the newest version."""
        self._held.setdefault(replica.id, []).append(then)
        self._membership.attach(replica)

    def held_count(self, replica: TopicReplica) -> int:
        """Return how many calls `hold` has waiting."""
        return len(self._held.get(replica.id, ()))

    def on_attached(self, replica: TopicReplica, newest: Cid | None) -> None:
        """Run the waiting calls once the version that the parent reports is known."""
        if replica.id not in self._waiting and replica.id not in self._held:
            return
        if newest is None or newest in replica.versions:
            self.on_timer(replica)
        else:  # Membership has searched for it first, so the replica learns it before this call.
            self._descriptors.find(newest, lambda _: self.on_timer(replica))

    def on_timer(self, replica: TopicReplica) -> None:
        """Run the waiting calls with the known versions."""
        waiting = self._waiting.pop(replica.id, [])
        if waiting:
            self._outbox.cancel_timer(("describe", replica.id))
        for then in waiting:
            then()
        if self._membership.is_attached(replica):
            for then in self._held.pop(replica.id, []):
                then()

    def on_left(self, replica: TopicReplica) -> None:
        """Forget the calls that wait for a place in a tree that this node has left."""
        self._held.pop(replica.id, None)

    # --- all versions ---

    def describe(self, topic: Cid, number: int) -> None:
        """Find the versions of a topic and deliver `TopicDescribed` with the number."""
        then = partial(self._on_replica, number)
        self._replicas.with_replica(topic, then, searches_max=QUESTION_SEARCHES_MAX)

    def _on_replica(self, number: int, replica: TopicReplica | None) -> None:
        if replica is None:
            self._outbox.deliver(TopicDescribed(number, ()))
        else:
            self.when_settled(replica, lambda: self._go_back(number, replica, [replica.topic]))

    def _go_back(self, number: int, replica: TopicReplica, found: list[Topic]) -> None:
        while (before := found[-1].parent) is not None:
            known = replica.versions.get(before)
            if known is None:
                then = partial(self._on_found, number, replica, found)
                self._descriptors.find(before, then, self._membership.parent(replica))
                return
            found.append(known)
        self._outbox.deliver(TopicDescribed(number, tuple(found)))

    def _on_found(
        self, number: int, replica: TopicReplica, found: list[Topic], topic: Topic | None
    ) -> None:
        if topic is None or not self._replicas.learn(replica, topic):
            self._outbox.deliver(TopicDescribed(number, tuple(found)))
        else:
            self._go_back(number, replica, found)

    def check(self) -> None:
        """Assert that only calls for topics without a settled place wait."""
        assert all(self._waiting.values())
        assert all(self._held.values())
        assert self._held.keys() <= self._replicas.by_id.keys()
