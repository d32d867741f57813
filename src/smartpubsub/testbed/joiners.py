"""How many nodes join at a time: as many as the machine can bear.

Whoever joins connects to many others, which is most of the work of a testbed's start. If too many
do so at once they wait for each other until they give each other up, and start all over.
"""

from __future__ import annotations

from collections.abc import Container

from smartpubsub.kademlia.settings import SECOND

AT_ONCE_MAX = 8
QUICK_US = 2 * SECOND
"""Who joins within this time shows that the machine can bear one more at a time."""
SLOW_US = 6 * SECOND
"""Who takes longer shows that there are too many."""


class Joiners:
    """The nodes that are joining, and how many they may be."""

    def __init__(self) -> None:
        self.at_once = 1
        self._since_us: dict[int, int] = {}

    def start(self, node: int, now_us: int) -> None:
        """A node begins to join."""
        self._since_us[node] = now_us

    def look(self, joined: Container[int], now_us: int) -> None:
        """See who has joined, and how long it took."""
        for node in [node for node in self._since_us if node in joined]:
            took_us = now_us - self._since_us.pop(node)
            if took_us < QUICK_US:
                self.at_once = min(self.at_once + 1, AT_ONCE_MAX)
            elif took_us > SLOW_US:
                self.at_once = max(self.at_once // 2, 1)
