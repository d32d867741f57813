"""Events that were offered and are asked for: of one peer after another until one sends them.

Whoever offers an event has promised it. As in libp2p one promise is noted for every request, of an
event in it that is drawn, and it is kept if the event comes, from whomever.
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
class _Wish:
    asked_at: int
    others: list[Peer] = field(default_factory=list)
    """Who else has offered the event."""


class Wishes:
    """What a node waits for."""

    def __init__(self, settings: GossipSettings, seen: Seen[EventId], rng: Random) -> None:
        self._settings = settings
        self._seen = seen
        self._rng = rng
        self._wishes: dict[EventId, _Wish] = {}
        self._promises: dict[EventId, dict[Peer, int]] = {}
        """Until when peers have to send an event."""
        self._offers: dict[Peer, int] = {}
        self._asked: dict[Peer, int] = {}

    def __len__(self) -> int:
        return len(self._wishes)

    def offered(self, peer: Peer, ids: Sequence[EventId], now: int) -> tuple[EventId, ...]:
        """What to ask a peer for that says what it has."""
        settings = self._settings
        offers = self._offers[peer] = self._offers.get(peer, 0) + 1
        if offers > settings.ihave_count_max:
            return ()
        unseen = [id for id in ids[: settings.ihave_length_max] if id not in self._seen]
        new = [id for id in unseen if self._is_new(id, peer)]
        free = min(
            settings.ihave_length_max - self._asked.get(peer, 0),
            settings.wish_count_max - len(self._wishes),
        )
        return self._ask(peer, new[: max(0, free)], now)

    def granted(self, id: EventId) -> None:
        """An event has come."""
        if self._wishes:
            self._wishes.pop(id, None)
        if self._promises:
            self._promises.pop(id, None)

    def heartbeat(self, now: int) -> tuple[dict[Peer, tuple[EventId, ...]], list[Peer]]:
        """What to ask others for, and who has broken a promise, each as often as it has."""
        self._offers.clear()
        self._asked.clear()
        broken = self._broken(now) if self._promises else []
        return (self._ask_others(now) if self._wishes else {}), broken

    def _is_new(self, id: EventId, peer: Peer) -> bool:
        wish = self._wishes.get(id)
        if wish is None:
            return True
        if len(wish.others) < self._settings.iwant_others_max and peer not in wish.others:
            wish.others.append(peer)
        return False

    def _ask(self, peer: Peer, ids: Sequence[EventId], now: int) -> tuple[EventId, ...]:
        if not ids:
            return ()
        self._asked[peer] = self._asked.get(peer, 0) + len(ids)
        for id in ids:
            self._wishes.setdefault(id, _Wish(now)).asked_at = now
        if len(self._promises) < self._settings.wish_count_max:
            promised = self._promises.setdefault(self._rng.choice(ids), {})
            promised.setdefault(peer, now + self._settings.iwant_followup_us)
        return tuple(ids)

    def _ask_others(self, now: int) -> dict[Peer, tuple[EventId, ...]]:
        by_peer: dict[Peer, list[EventId]] = {}
        for id, wish in list(self._wishes.items()):
            if now - wish.asked_at < self._settings.iwant_patience_us:
                continue
            if wish.others:
                by_peer.setdefault(wish.others.pop(0), []).append(id)
            else:
                del self._wishes[id]  # Whoever offers it next will be asked.
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
