"""How fast events may follow each other so that the busiest outgoing link keeps up.

Estimated from what a protocol sends for one event, before the run. Only large networks need it: in
a small one the times of the scenarios are slow enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, log, sqrt
from types import MappingProxyType

from smartpubsub.kademlia.settings import SECOND, Settings
from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.places import CAPACITIES

LARGE_NETWORK_NODES = 1_000
LINK_SHARE_MAX = 0.7
"""How much of a link's time events may take."""
EVENT_BYTES = 300
"""An event of the scenarios on the wire, in round numbers."""
EVENT_ID_BYTES = 48
LINKED_EVENT_BYTES = 600
"""An event of a topic, which links to others."""

_DEVIATIONS_OF_HOTTEST = 4
"""So far above the mean lies the largest of ten thousand."""


def floodsub_bytes(nodes: int, publishers: int, k: int) -> float:  # noqa: ARG001
    """What the hottest link carries for an event that goes to all peers."""
    return hottest_degree(nodes, k) * EVENT_BYTES


def scoutsubs_bytes(nodes: int, publishers: int, k: int) -> float:  # noqa: ARG001
    """What the hottest link carries at most: a rendezvous with all the children that it takes."""
    settings = ScoutSettings()
    # A node that is closer to the key than all children is taken too; that gets rare.
    children = (settings.fan_out_max or nodes) + log(nodes)
    return (min(hottest_degree(nodes, k), children) + settings.backups) * EVENT_BYTES


def pulsarcast_bytes(nodes: int, publishers: int, k: int) -> float:  # noqa: ARG001
    """What the hottest link carries: all that a node has below it, and its parent."""
    settings = PulsarSettings()
    return (1 + settings.fan_out_max + settings.keepers / publishers) * LINKED_EVENT_BYTES


def gossipsub_bytes(nodes: int, publishers: int, k: int) -> float:
    """What the hottest link carries: a full mesh, gossip, and its share of own events to all."""
    settings, degree = GossipSettings(), hottest_degree(nodes, k)
    gossip = max(settings.d_lazy, settings.gossip_factor * degree) * settings.history_gossip
    own = degree / publishers if settings.flood_publish else 0
    return (settings.d_high + own) * EVENT_BYTES + gossip * EVENT_ID_BYTES


def fastdelivery_bytes(nodes: int, publishers: int, k: int) -> float:  # noqa: ARG001
    """What the hottest link carries at most: a publisher that serves all members itself.

    Its own share of the events is all that it sends, apart from what it passes on as a helper.
    """
    return (nodes / publishers + max(CAPACITIES)) * EVENT_BYTES


BYTES_PER_EVENT: Mapping[str, Callable[[int, int, int], float]] = MappingProxyType(
    {
        "scoutsubs": scoutsubs_bytes,
        "fastdelivery": fastdelivery_bytes,
        "pulsarcast": pulsarcast_bytes,
        "floodsub": floodsub_bytes,
        "gossipsub": gossipsub_bytes,
    }
)
"""By protocol: (nodes, publishers, k) to what an event adds to the hottest link."""


def pace_us(protocol: str, nodes: int, publishers: int, network: NetworkOptions) -> int:
    """The least time from one event to the next that a protocol can sustain."""
    size = BYTES_PER_EVENT[protocol](nodes, publishers, Settings().k)
    return ceil(size * SECOND / (LINK_SHARE_MAX * network.bandwidth_bytes_per_s))


def hottest_degree(nodes: int, k: int) -> float:
    """About how many peers the node has that has most: those in its table, or it in theirs.

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
