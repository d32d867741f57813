"""Regions and capacities of simulated nodes, derived from their peer ids."""

from __future__ import annotations

from smartpubsub.seam import Peer

CAPACITIES = (0, 5, 10, 20, 40, 80)
"""How many peers a node is ready to serve; all values are equally frequent."""


def capacity_of(peer: Peer) -> int:
    """How many peers a node is ready to serve."""
    return CAPACITIES[int.from_bytes(peer[-8:-4], "big") % len(CAPACITIES)]


def region_of(peer: Peer, regions: int) -> int:
    """The region of a node."""
    return int.from_bytes(peer[-4:], "big") % regions if regions else 0
