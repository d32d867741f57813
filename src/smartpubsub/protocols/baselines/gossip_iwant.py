"""Requests for events that peers have offered: one peer after another until the event arrives.

A peer that offers an event promises it. As in libp2p, one random event of every request is tracked;
the promise is kept if that event arrives, from any peer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.seen import Seen
from smartpubsub.seam import Peer


@dataclass(slots=True)
class _RequestedEvent:
    asked_at: int
    others: list[Peer] = field(default_factory=list)
    """Further peers that have offered the event."""


class IwantRequests:
    """The events that this node has requested, and the promises of peers."""

    def __init__(self, settings: GossipSettings, seen: Seen[EventId], rng: Random) -> None:
        self._settings = settings
        self._seen = seen
        self._rng = rng
        self._requested: dict[EventId, _RequestedEvent] = {}
        self._promises: dict[EventId, dict[Peer, int]] = {}
        """Until when each peer has to send an event."""
        self._offers: dict[Peer, int] = {}
        self._asked: dict[Peer, int] = {}

    def __len__(self) -> int:
        return len(self._requested)

    def offered(self, peer: Peer, ids: Sequence[EventId], now: int) -> tuple[EventId, ...]:
        """Take the ids that a peer offers; return those to request from it."""
        settings = self._settings
        offers = self._offers[peer] = self._offers.get(peer, 0) + 1
        if offers > settings.ihave_count_max:
            return ()
        unseen = [id for id in ids[: settings.ihave_length_max] if id not in self._seen]
        new = [id for id in unseen if self._is_new(id, peer)]
        free = min(
            settings.ihave_length_max - self._asked.get(peer, 0),
            settings.iwant_count_max - len(self._requested),
        )
        return self._ask(peer, new[: max(0, free)], now)

    def received(self, id: EventId) -> None:
        """End the request for an event that has arrived."""
        if self._requested:
            self._requested.pop(id, None)
        if self._promises:
            self._promises.pop(id, None)

    def heartbeat(self, now: int) -> tuple[dict[Peer, tuple[EventId, ...]], list[Peer]]:
        """Return what to request from which peer, and the peers that have broken promises.

        A peer is listed once for every broken promise.
        """
        self._offers.clear()
        self._asked.clear()
        broken = self._broken(now) if self._promises else []
        return (self._ask_others(now) if self._requested else {}), broken

    def check(self) -> None:
        """Assert that requested events and promises are within their limits."""
        assert all(id not in self._seen for id in self._requested), "a seen event is requested"
        assert all(self._promises.values()), "a promise without a peer"
        assert len(self._promises) <= self._settings.iwant_count_max

    def _is_new(self, id: EventId, peer: Peer) -> bool:
        requested = self._requested.get(id)
        if requested is None:
            return True
        if len(requested.others) < self._settings.iwant_others_max and peer not in requested.others:
            requested.others.append(peer)
        return False

    def _ask(self, peer: Peer, ids: Sequence[EventId], now: int) -> tuple[EventId, ...]:
        if not ids:
            return ()
        self._asked[peer] = self._asked.get(peer, 0) + len(ids)
        for id in ids:
            self._requested.setdefault(id, _RequestedEvent(now)).asked_at = now
        if len(self._promises) < self._settings.iwant_count_max:
            promised = self._promises.setdefault(self._rng.choice(ids), {})
            promised.setdefault(peer, now + self._settings.iwant_followup_us)
        return tuple(ids)

    def _ask_others(self, now: int) -> dict[Peer, tuple[EventId, ...]]:
        by_peer: dict[Peer, list[EventId]] = {}
        for id, requested in list(self._requested.items()):
            if now - requested.asked_at < self._settings.iwant_timeout_us:
                continue
            if requested.others:
                by_peer.setdefault(requested.others.pop(0), []).append(id)
            else:
                del self._requested[id]  # The next peer that offers it is asked.
        return {peer: self._ask(peer, ids, now) for peer, ids in by_peer.items()}

    def _broken(self, now: int) -> list[Peer]:
        broken: list[Peer] = []
        for id, promised in list(self._promises.items()):
            late = [peer for peer, until in promised.items() if until <= now]
            broken += late
            for peer in late:
                del promised[peer]
            if not promised:
                del self._promises[id]
        return broken
