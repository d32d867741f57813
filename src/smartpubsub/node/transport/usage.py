"""Which connections have been of use lately, and which can be done without."""

from __future__ import annotations

from collections import OrderedDict

from smartpubsub.seam import Peer


class Usage:
    """Connected peers, the one that was idle for longest first."""

    def __init__(self) -> None:
        self._used_at: OrderedDict[Peer, float] = OrderedDict()

    def connect(self, peer: Peer, now: float) -> None:
        """There is a connection to a peer."""
        self._used_at[peer] = now

    def touch(self, peer: Peer, now: float) -> None:
        """Something comes from a peer or goes to it."""
        if peer in self._used_at:
            self._used_at[peer] = now
            self._used_at.move_to_end(peer)

    def disconnect(self, peer: Peer) -> None:
        """There is no connection to a peer any more."""
        self._used_at.pop(peer, None)

    def peers(self) -> list[Peer]:
        """All connected peers."""
        return list(self._used_at)

    def idlest(self, count: int, idle_since: float) -> list[Peer]:
        """At most so many that have not been of use since a time."""
        idle: list[Peer] = []
        for peer, used_at in self._used_at.items():
            if len(idle) == count or used_at > idle_since:
                break
            idle.append(peer)
        return idle
