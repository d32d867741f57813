"""The use of connections, for pruning."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container

from smartpubsub.seam import Peer


class Usage:
    """Connected peers, the one idle for longest first."""

    def __init__(self) -> None:
        self._used_at: OrderedDict[Peer, float] = OrderedDict()

    def connect(self, peer: Peer, now: float) -> None:
        """Add a peer that has connected."""
        self._used_at[peer] = now

    def touch(self, peer: Peer, now: float) -> None:
        """Record a message from or to a peer."""
        if peer in self._used_at:
            self._used_at[peer] = now
            self._used_at.move_to_end(peer)

    def disconnect(self, peer: Peer) -> bool:
        """Remove a peer that has disconnected; return whether it was there."""
        return self._used_at.pop(peer, None) is not None

    def peers(self) -> list[Peer]:
        """All connected peers."""
        return list(self._used_at)

    def idlest(self, count: int, idle_since: float, spared: Container[Peer] = ()) -> list[Peer]:
        """The peers idle since a time that are not spared, up to a number."""
        idle: list[Peer] = []
        for peer, used_at in self._used_at.items():
            if len(idle) == count or used_at > idle_since:
                break
            if peer not in spared:
                idle.append(peer)
        return idle
