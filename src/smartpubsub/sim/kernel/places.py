"""Where simulated nodes are and what they offer: their peer ids say it, so it is always theirs."""

from __future__ import annotations

from smartpubsub.seam import Peer

CAPACITIES = (0, 5, 10, 20, 40, 80)
"""How many others nodes are ready to serve; each of these is as frequent as any other."""


def capacity_of(peer: Peer) -> int:
    """How many others a node is ready to serve."""
    return CAPACITIES[int.from_bytes(peer[-8:-4], "big") % len(CAPACITIES)]


def region_of(peer: Peer, regions: int) -> int:
    """In which of so many regions a node is."""
    return int.from_bytes(peer[-4:], "big") % regions if regions else 0
