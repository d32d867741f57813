"""The pace of events that the busiest outgoing link sustains.

It is estimated before the run, from the messages of a protocol for one event. Only large networks
need it: in a small one, the scenarios are slow enough.
"""

from __future__ import annotations

from math import ceil, sqrt

from smartpubsub.kademlia.settings import SECOND, Settings
from smartpubsub.protocols.registry import spec_of
from smartpubsub.protocols.spec import EventLoad
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.places import CAPACITIES

LARGE_NETWORK_NODES = 1_000
LINK_SHARE_MAX = 0.7
"""How much of a link's time events may take."""
EVENT_BYTES = 300
"""An event of the scenarios on the wire, in round numbers."""

_DEVIATIONS_OF_HOTTEST = 4
"""The largest of ten thousand values is so many times the mean."""


def pace_us(protocol: str, nodes: int, publishers: int, network: NetworkOptions) -> int:
    """The least time from one event to the next that a protocol can sustain."""
    load = EventLoad(
        nodes, publishers, hottest_degree(nodes, Settings().k), max(CAPACITIES), EVENT_BYTES
    )
    size = spec_of(protocol).hottest_link_bytes(load)
    return ceil(size * SECOND / (LINK_SHARE_MAX * network.bandwidth_bytes_per_s))


def hottest_degree(nodes: int, k: int) -> float:
    """The approximate degree of the best-connected node: peers in its table, or with it in theirs.

    >>> hottest_degree(10, 20), round(hottest_degree(1000, 20))
    (9.0, 240)
    """
    degree, variance = 0.0, 0.0
    others = nodes - 1
    while others > k:
        # The bucket's range is half of the rest; each node in it chooses k of this half as well.
        there = others / 2
        chosen = min(1.0, k / there)
        degree += there * (1 - (1 - chosen) ** 2)
        variance += there * chosen * (1 - chosen)
        others -= ceil(there)
    return min(nodes - 1.0, degree + others + _DEVIATIONS_OF_HOTTEST * sqrt(variance))
