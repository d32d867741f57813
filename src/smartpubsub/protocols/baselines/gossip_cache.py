"""The events of the last few heartbeats, which can be told of and asked for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.baselines.rpc import Copy
from smartpubsub.protocols.publication import EventId
from smartpubsub.seam import Peer


@dataclass(slots=True)
class Cached:
    """An event, and what has to do with it."""

    copy: Copy
    """As it is sent on."""
    at: int
    """When it came."""
    brought_by: dict[Peer, None] = field(default_factory=dict)
    """The mesh members that sent it."""
    asked_by: dict[Peer, int] = field(default_factory=dict)
    """How often peers were sent it because they asked."""


class MessageCache:
    """Events by their age in heartbeats."""

    def __init__(self, settings: GossipSettings) -> None:
        self._settings = settings
        self._events: dict[EventId, Cached] = {}
        self._windows: deque[deque[EventId]] = deque([deque()])
        """The newest first."""

    def __len__(self) -> int:
        return len(self._events)

    def put(self, copy: Copy, now: int) -> Cached:
        """Keep an event, if need be in the place of the oldest."""
        if len(self._events) >= self._settings.history_count_max:
            self._drop_oldest()
        cached = self._events[copy.event.id] = Cached(copy, now)
        self._windows[0].append(copy.event.id)
        return cached

    def get(self, id: EventId) -> Cached | None:
        """An event that is not too old."""
        return self._events.get(id)

    def asked_for(self, id: EventId, peer: Peer) -> Copy | None:
        """An event for a peer that asks, unless it has asked too often."""
        cached = self._events.get(id)
        if cached is None:
            return None
        sent = cached.asked_by.get(peer, 0)
        if sent >= self._settings.retransmissions_max:
            return None
        cached.asked_by[peer] = sent + 1
        return cached.copy

    def recent(self) -> list[EventId]:
        """What others are to be told of, the newest first."""
        told = range(min(len(self._windows), self._settings.history_gossip))
        return [id for age in told for id in reversed(self._windows[age])]

    def shift(self) -> None:
        """A heartbeat has passed."""
        if not self._events:
            return
        self._windows.appendleft(deque())
        if len(self._windows) > self._settings.history_length:
            for id in self._windows.pop():
                del self._events[id]

    def _drop_oldest(self) -> None:
        while not self._windows[-1]:
            self._windows.pop()
        del self._events[self._windows[-1].popleft()]
