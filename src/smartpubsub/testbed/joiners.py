"""How many nodes join at a time: as many as the machine can handle.

A joining node connects to many others, which is most of the work of a testbed's start. If too many
join at once, they time out waiting for each other, and start over.
"""

from __future__ import annotations

from collections.abc import Container

from smartpubsub.kademlia.settings import SECOND

AT_ONCE_MAX = 8
QUICK_US = 2 * SECOND
"""If a node joins within this time, the machine can handle one more at a time."""
SLOW_US = 6 * SECOND
"""If a node takes longer, too many nodes join at a time."""


class Joiners:
    """The joining nodes, and their current maximum."""

    def __init__(self) -> None:
        self.at_once = 1
        self._since_us: dict[int, int] = {}

    def start(self, node: int, now_us: int) -> None:
        """Record that a node begins to join."""
        self._since_us[node] = now_us

    def look(self, joined: Container[int], now_us: int) -> None:
        """Record which nodes have joined, and how long they took."""
        for node in [node for node in self._since_us if node in joined]:
            took_us = now_us - self._since_us.pop(node)
            if took_us < QUICK_US:
                self.at_once = min(self.at_once + 1, AT_ONCE_MAX)
            elif took_us > SLOW_US:
                self.at_once = max(self.at_once // 2, 1)
