"""The message cache: events of the last few heartbeats, which peers can request."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.baselines.messages import Copy
from smartpubsub.protocols.publication import EventId
from smartpubsub.seam import Peer


@dataclass(slots=True)
class CachedEvent:
    """An event, and which peers have sent and requested it."""

    copy: Copy
    """The event as this node forwards it."""
    at: int
    """When it arrived."""
    brought_by: dict[Peer, None] = field(default_factory=dict)
    """The mesh members that have sent it."""
    asked_by: dict[Peer, int] = field(default_factory=dict)
    """How often each peer was sent the event at its request."""


class MessageCache:
    """Events by their age in heartbeats, at most `history_count_max`."""

    def __init__(self, settings: GossipSettings) -> None:
        self._settings = settings
        self._events: dict[EventId, CachedEvent] = {}
        self._windows: deque[deque[EventId]] = deque([deque()])
        """The ids of each heartbeat, newest first."""

    def __len__(self) -> int:
        return len(self._events)

    def put(self, copy: Copy, now: int) -> CachedEvent:
        """Add an event; evict the oldest one if the cache is full.

        After a pause of the node, an event that is no longer known as seen may still be in the
        cache, because no heartbeat has dropped it.
        """
        if copy.event.id in self._events:
            return self._events[copy.event.id]
        if len(self._events) >= self._settings.history_count_max:
            self._drop_oldest()
        cached = self._events[copy.event.id] = CachedEvent(copy, now)
        self._windows[0].append(copy.event.id)
        return cached

    def get(self, id: EventId) -> CachedEvent | None:
        """Return an event; None if it is not in the cache."""
        return self._events.get(id)

    def asked_for(self, id: EventId, peer: Peer) -> Copy | None:
        """Return an event for a peer that requests it; None after too many requests."""
        cached = self._events.get(id)
        if cached is None:
            return None
        sent = cached.asked_by.get(peer, 0)
        if sent >= self._settings.retransmissions_max:
            return None
        cached.asked_by[peer] = sent + 1
        return cached.copy

    def recent(self) -> list[EventId]:
        """Return the ids to gossip, newest first."""
        ages = range(min(len(self._windows), self._settings.history_gossip))
        return [id for age in ages for id in reversed(self._windows[age])]

    def shift(self) -> None:
        """Start the window of the next heartbeat; drop the oldest one."""
        if not self._events:
            return
        self._windows.appendleft(deque())
        if len(self._windows) > self._settings.history_length:
            for id in self._windows.pop():
                del self._events[id]

    def check(self) -> None:
        """Assert that every cached event is in one window."""
        assert sum(map(len, self._windows)) == len(self._events)
        assert len(self._windows) <= self._settings.history_length

    def _drop_oldest(self) -> None:
        while not self._windows[-1]:
            self._windows.pop()
        del self._events[self._windows[-1].popleft()]
