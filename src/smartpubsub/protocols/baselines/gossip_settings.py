"""The constants of GossipSub v1.1, under its own names where it has them."""

from __future__ import annotations

from dataclasses import dataclass, field

from smartpubsub.kademlia.settings import HOUR, MINUTE, SECOND
from smartpubsub.protocols.baselines.one_topic import OneTopicSettings


@dataclass(frozen=True, kw_only=True)
class ScoreSettings:
    """The parameters of peer scores; times in microseconds.

    A peer that forwards has up to 15 points, and one that does not loses 8. One invalid event costs
    10 points, two cost 40, three 90.
    """

    decay_us: int = SECOND
    """The interval at which counters decay."""
    traffic_half_life_us: int = MINUTE
    """The half-life of deliveries and delivery deficits."""
    fault_half_life_us: int = 10 * MINUTE
    """The half-life of invalid events and misbehaviour."""
    negligible: float = 0.01
    """A counter below this is zero."""
    record_count_max: int = 2_000

    mesh_second_points: float = 0.01
    """P1: for every second in the mesh."""
    mesh_points_max: float = 5.0
    first_delivery_points: float = 0.5
    """P2: for every event that the peer delivers first."""
    first_delivery_points_max: float = 10.0

    deficit_points: float = -8.0
    """P3: for a mesh member that forwards nothing; P3b: when it leaves."""
    share_expected: float = 0.1
    """The share of events that a mesh member is expected to deliver first or soon after."""
    expected_min: float = 3.0
    """P3 is zero while the expected number of deliveries is lower."""
    publisher_count_min: int = 8
    """P3 is zero with fewer publishers: an honest peer may always be late for some."""
    near_first_us: int = 2 * SECOND
    activation_us: int = 30 * SECOND
    """P3 is zero until a peer has been in the mesh for this long."""

    invalid_points: float = -10.0
    """P4: per square of the number of invalid events."""
    misbehaviour_points: float = -5.0
    """P7: per square of the number of violations beyond those allowed."""
    misbehaviour_allowed: float = 6.0

    gossip_threshold: float = -10.0
    """A peer below gets no gossip and no requested events."""
    publish_threshold: float = -50.0
    """A peer below is not sent this node's own events."""
    graylist_threshold: float = -80.0
    """Messages of a peer below are ignored."""
    opportunistic_threshold: float = 1.0
    """If the median of the mesh is below, the node grafts better peers."""


@dataclass(frozen=True, kw_only=True)
class GossipSettings(OneTopicSettings):
    """The constants of GossipSub; times in microseconds."""

    heartbeat_us: int = SECOND

    d: int = 6
    """The target size of the mesh."""
    d_low: int = 5
    d_high: int = 12
    d_score: int = 4
    """How many of the best members stay when the mesh is pruned."""
    d_out: int = 2
    """How many members have to be outbound: chosen by this node."""
    d_lazy: int = 6
    """The least number of peers outside the mesh that get gossip in a heartbeat."""
    gossip_factor: float = 0.25
    """The share of those peers that gets gossip, if that is more."""

    flood_publish: bool = True
    """Whether a node sends its own events to all peers instead of its mesh."""
    history_length: int = 5
    """For how many heartbeats events can be requested."""
    history_gossip: int = 3
    """For how many heartbeats the id of an event is gossiped."""
    history_count_max: int = 10_000

    ihave_length_max: int = 5_000
    """How many ids of a peer are read, and how many events it is asked for, in a heartbeat."""
    ihave_count_max: int = 10
    """How many IHAVE messages of a peer are read in a heartbeat."""
    iwant_timeout_us: int = SECOND
    """After this long another peer is asked for an event."""
    iwant_followup_us: int = 3 * SECOND
    """After this long a peer that was asked for an event has broken its promise."""
    iwant_others_max: int = 3
    """How many further peers that offer an event are remembered."""
    iwant_count_max: int = 20_000
    """Requested events that have not arrived."""
    retransmissions_max: int = 3
    """How often a peer is sent the same event at its request."""

    backoff_us: int = MINUTE
    """How long a pruned peer may not rejoin the mesh."""
    backoff_us_max: int = HOUR
    """The longest back-off that a peer may ask for."""
    backoff_slack_us: int = 2 * SECOND
    """How much longer this node waits itself, because clocks and links differ."""
    graft_flood_us: int = 10 * SECOND
    """A graft this soon after a prune counts as two violations."""
    opportunistic_heartbeats: int = 60
    """The mesh is maintained thoroughly in one of this many heartbeats."""
    opportunistic_count: int = 2

    scores: ScoreSettings = field(default_factory=ScoreSettings)
