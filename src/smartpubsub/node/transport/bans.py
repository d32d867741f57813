"""Peers with which the host keeps no connections for a time."""

from __future__ import annotations

from collections import OrderedDict

from smartpubsub.seam import Peer


class Bans:
    """The peers whose messages have made the core fail, and those that a protocol has convicted.

    Times are in seconds. A ban of a convicted peer has no end. Beyond `count_max` peers of either
    kind, the ban that began first ends.
    """

    def __init__(self, ban_s: float, count_max: int) -> None:
        self._ban_s = ban_s
        self._count_max = count_max
        self._until: OrderedDict[Peer, float] = OrderedDict()
        """The end of each ban for a failure."""
        self._convicted: OrderedDict[Peer, None] = OrderedDict()

    def ban(self, peer: Peer, now: float) -> None:
        """Ban a peer from now on."""
        self._until[peer] = now + self._ban_s
        self._until.move_to_end(peer)
        if len(self._until) > self._count_max:
            self._until.popitem(last=False)

    def convict(self, peer: Peer) -> bool:
        """Ban a convicted peer; return whether it was not banned as such before."""
        is_new = peer not in self._convicted
        self._convicted[peer] = None
        if len(self._convicted) > self._count_max:
            self._convicted.popitem(last=False)
        return is_new

    def is_banned(self, peer: Peer, now: float) -> bool:
        """Whether a peer is banned."""
        until = self._until.get(peer)
        return peer in self._convicted or (until is not None and now < until)

    def count(self, now: float) -> int:
        """The number of peers that are banned for a failure."""
        return sum(now < until for until in self._until.values())
