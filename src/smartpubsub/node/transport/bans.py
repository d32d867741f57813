"""Peers with which the host keeps no connections for a time."""

from __future__ import annotations

from collections import OrderedDict

from smartpubsub.seam import Peer


class Bans:
    """The peers whose messages have made the core fail, with the end of each ban.

    Times are in seconds. Beyond `count_max` peers, the ban that began first ends.
    """

    def __init__(self, ban_s: float, count_max: int) -> None:
        self._ban_s = ban_s
        self._count_max = count_max
        self._until: OrderedDict[Peer, float] = OrderedDict()

    def ban(self, peer: Peer, now: float) -> None:
        """Ban a peer from now on."""
        self._until[peer] = now + self._ban_s
        self._until.move_to_end(peer)
        if len(self._until) > self._count_max:
            self._until.popitem(last=False)

    def is_banned(self, peer: Peer, now: float) -> bool:
        """Whether a peer is banned."""
        until = self._until.get(peer)
        return until is not None and now < until

    def count(self, now: float) -> int:
        """The number of peers that are banned."""
        return sum(now < until for until in self._until.values())
