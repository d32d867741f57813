"""Dissemination: check an event, store it, deliver it, and forward it through the tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pubsub import Convicted
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.pulsarcast.fields import Reason, RefusalError
from smartpubsub.protocols.pulsarcast.membership import Membership
from smartpubsub.protocols.pulsarcast.messages import Leave, Spread
from smartpubsub.protocols.pulsarcast.replicas import TopicReplica, TopicReplicas
from smartpubsub.protocols.pulsarcast.store import EventStore
from smartpubsub.protocols.pulsarcast.subscriptions import TopicSubscriptions
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.seam import Peer

FETCHED_HOPS = 1
"""A fetched event has come over one link from the node that had it."""
CONVICTED_COUNT_MAX = 1_000


class Fork(NamedTuple):
    """The blocks of two events with different payloads that one author has signed under one number.

    An author uses a number once, and an event that is published again has the same payload. So the
    two blocks convict their author, and any node that has both can verify it. Both are events of
    the topic and spread like others, so every node of the topic gets the evidence.
    """

    first: bytes
    second: bytes


class Forks:
    """The authors that have forked a topic, each with the evidence."""

    def __init__(self) -> None:
        self.convicted: BoundedDict[Peer, Fork] = BoundedDict(CONVICTED_COUNT_MAX)

    def compare(self, first: TopicEvent, second: TopicEvent) -> bool:
        """Return whether two verified events with one id are a fork; convict the author if so.

        For announcements of versions, the versions are compared instead.
        """
        assert first.id == second.id
        drafts = first.draft, second.draft
        is_fork = drafts[0].payload != drafts[1].payload
        if not is_fork or any(draft.is_announcement for draft in drafts):
            return False
        self.convicted[first.id.publisher] = Fork(first.block, second.block)
        return True


@dataclass(eq=False)
class TopicDissemination(Component):
    """Accepts events and forwards them.

    `on_accepted` is called with each accepted event and the peer that it came from.
    """

    _replicas: TopicReplicas
    _membership: Membership
    _store: EventStore
    _subscriptions: TopicSubscriptions
    _forks: Forks
    _on_accepted: Callable[[TopicReplica, TopicEvent, Peer | None], None]
    _unspread: dict[Cid, BoundedDict[Cid, None]] = field(init=False, default_factory=dict)
    """Events of each topic that were fetched, and may still come through the tree."""

    def on_spread(self, peer: Peer, message: Spread) -> None:
        """Accept and forward an event that comes through the tree."""
        block, hops = message
        event = self._permissions.read_event(block)
        if event is None:
            return
        replica = self._replicas.of_version(event.topic)
        if replica is None:
            self._on_unknown_version(peer, event)
            return
        if not self._membership.is_neighbour(replica, peer):
            self._outbox.queue(peer, Leave(replica.id))  # The peer takes this node for a child.
        if event.cid in replica.log:
            unspread = self._unspread.get(replica.id)
            if unspread is not None and event.cid in unspread:
                del unspread[event.cid]
                self._forward(replica, block, hops, peer)
            else:
                self._outbox.reject("repeated")
        elif self._accept(replica, event, hops, peer):
            self._forward(replica, block, hops, peer)

    def _on_unknown_version(self, peer: Peer, event: TopicEvent) -> None:
        """Learn the version that an event was published in, if the sender is a neighbour."""
        replicas = self._replicas.by_id.values()
        if any(self._membership.is_neighbour(replica, peer) for replica in replicas):
            self._replicas.hear_of_event_version(event.topic, peer)
        else:
            self._outbox.reject("unwanted")

    def publish(self, replica: TopicReplica, event: TopicEvent) -> None:
        """Accept and forward an event that this node has published."""
        if self._accept(replica, event, 0, None):
            self._forward(replica, event.block, 0, None)

    def _forward(self, replica: TopicReplica, block: bytes, hops: int, source: Peer | None) -> None:
        message = Spread(block, hops + 1)
        for peer in self._membership.neighbours(replica):
            if peer != source:
                self._outbox.queue(peer, message)

    def accept_fetched(
        self,
        replica: TopicReplica,
        event: TopicEvent,
        peer: Peer,
        *,
        is_linked: bool = False,
        is_delivered: bool = True,
    ) -> bool:
        """Accept an event that was fetched; return whether it is valid."""
        if not self._accept(
            replica, event, FETCHED_HOPS, peer, is_linked=is_linked, is_delivered=is_delivered
        ):
            return False
        if replica.id not in self._unspread:
            count_max = self._settings.unspread_count_max
            self._unspread[replica.id] = BoundedDict(count_max)
        self._unspread[replica.id][event.cid] = None
        return True

    def accept_imported(self, replica: TopicReplica, event: TopicEvent) -> bool:
        """Accept an event from a file without delivering it; return whether it is valid."""
        return self._accept(replica, event, 0, None, is_linked=True, is_delivered=False)

    def _accept(
        self,
        replica: TopicReplica,
        event: TopicEvent,
        hops: int,
        source: Peer | None,
        *,
        is_linked: bool = False,
        is_delivered: bool = True,
    ) -> bool:
        """Check and store a new event; deliver the events that become ready.

        With `is_linked`, an accepted event links to it, so it was allowed when it was published.
        """
        topic, log = replica.versions[event.topic], replica.log
        is_bound = not is_linked and topic is not replica.topic and topic is not replica.meta
        try:
            self._permissions.check_event(event, topic, replica.topic if is_bound else None)
            log.must_fit(event)
            if not self._store.make_room_for(event):
                raise RefusalError(Reason.NO_ROOM, "pinned topics leave no room")
        except RefusalError as error:
            self._permissions.refuse(error)
            return False
        twin = log.with_id(event.id)
        whole = self._store.add(replica, event)
        self._on_accepted(replica, event, source)
        if event.draft.is_announcement and source is not None:
            self._replicas.hear_of_version(replica, event.draft.payload, source)
        if twin is not None:
            is_fork = self._is_fork(twin, event)
            self._outbox.reject("forked" if is_fork else Reason.REPLAYED.value)
        # In a topic with one order an event is delivered after all events that it links to.
        ready = whole if replica.topic.rules.is_chained else (event,)
        for one in ready:
            if one is not event or (is_delivered and twin is None):
                self._subscriptions.deliver(replica, one, hops)
        self._store.prune_if_too_large(replica)
        return True

    def restore(self, event: TopicEvent) -> None:
        """Add an event that was in storage; a stored fork convicts its author again."""
        replica = self._replicas.of_version(event.topic)
        twin = None if replica is None else replica.log.with_id(event.id)
        self._store.restore(event)
        if twin is not None:
            self._is_fork(twin, event)

    def _is_fork(self, first: TopicEvent, second: TopicEvent) -> bool:
        """Compare two events with one id; convict their author if they are a fork."""
        is_fork = self._forks.compare(first, second)
        if is_fork:
            self._outbox.deliver(Convicted(first.id.publisher))
        return is_fork

    def go_on_without(self, replica: TopicReplica, cid: Cid) -> None:
        """Deliver the events that wait for one that no node has, or that is not needed."""
        whole = replica.log.give_up(cid)
        if replica.topic.rules.is_chained:
            for event in whole:
                self._subscriptions.deliver(replica, event, FETCHED_HOPS)

    def on_left(self, replica: TopicReplica) -> None:
        """Forget a topic."""
        self._unspread.pop(replica.id, None)

    def check(self) -> None:
        """Assert the limits on fetched events."""
        assert self._unspread.keys() <= self._replicas.by_id.keys()
        for unspread in self._unspread.values():
            assert len(unspread) <= self._settings.unspread_count_max
