"""The constants of GossipSub v1.1, by the names that it gives them where it does."""

from __future__ import annotations

from dataclasses import dataclass, field

from smartpubsub.kademlia.settings import HOUR, MINUTE, SECOND
from smartpubsub.protocols.peers import PeerSettings


@dataclass(frozen=True, kw_only=True)
class ScoreSettings:
    """How peers are judged; times are in microseconds.

    A peer that does its share has up to 15 points, one that does not forward loses 8, and one event
    that is not what it pretends to be costs 10, two cost 40, three 90.
    """

    fade_us: int = SECOND
    """How often what is counted gets less."""
    traffic_half_life_us: int = MINUTE
    """How long deliveries count, and that there were none."""
    fault_half_life_us: int = 10 * MINUTE
    """How long other faults count."""
    negligible: float = 0.01
    """A count below this is none."""
    standing_count_max: int = 2_000

    mesh_second_points: float = 0.01
    """P1: for every second in the mesh."""
    mesh_points_max: float = 5.0
    first_delivery_points: float = 0.5
    """P2: for every event that nobody else brought before."""
    first_delivery_points_max: float = 10.0

    deficit_points: float = -8.0
    """P3: for a mesh member that forwards nothing; P3b: when it goes."""
    share_expected: float = 0.1
    """A mesh member is expected to bring so much of what there is, soon after the first."""
    expected_min: float = 3.0
    """Nobody is judged while less than this can be expected."""
    publisher_count_min: int = 8
    """Nobody is judged by the events of fewer: a peer may honestly always be behind for some."""
    near_first_us: int = 2 * SECOND
    activation_us: int = 30 * SECOND
    """Nobody is judged before it has been in the mesh for so long."""

    invalid_points: float = -10.0
    """P4: for the square of the number of invalid events."""
    misbehaviour_points: float = -5.0
    """P7: for the square of the number of breaches beyond those allowed."""
    misbehaviour_allowed: float = 6.0

    gossip_threshold: float = -10.0
    """Whoever is below is neither told what there is nor sent what it asks for."""
    publish_threshold: float = -50.0
    """Whoever is below is not sent this node's own events."""
    graylist_threshold: float = -80.0
    """Whoever is below is not listened to."""
    opportunistic_threshold: float = 1.0
    """If half of the mesh is below, better peers are looked for."""


@dataclass(frozen=True, kw_only=True)
class GossipSettings(PeerSettings):
    """Times are in microseconds."""

    heartbeat_us: int = SECOND

    d: int = 6
    """How many peers a mesh is meant to have."""
    d_low: int = 5
    d_high: int = 12
    d_score: int = 4
    """How many of the best are kept when there are too many."""
    d_out: int = 2
    """How many there have to be that this node chose itself."""
    d_lazy: int = 6
    """How many outside the mesh are told at least, in every heartbeat, what there is."""
    gossip_factor: float = 0.25
    """Which share of them is told, if that is more."""

    flood_publish: bool = True
    """Whether a node's own events go to all peers and not to its mesh alone."""
    history_length: int = 5
    """For how many heartbeats events can be asked for."""
    history_gossip: int = 3
    """In how many heartbeats others are told of an event."""
    history_count_max: int = 10_000
    seen_us: int = 2 * MINUTE
    seen_count_max: int = 100_000

    ihave_length_max: int = 5_000
    """How many events a peer can offer, and how many it is asked for, in a heartbeat."""
    ihave_count_max: int = 10
    """How many offers of a peer are looked at in a heartbeat."""
    iwant_patience_us: int = SECOND
    """After this long somebody else is asked for an event."""
    iwant_followup_us: int = 3 * SECOND
    """After this long whoever offered an event and does not send it has broken its promise."""
    iwant_others_max: int = 3
    """How many are remembered who could be asked next."""
    wish_count_max: int = 20_000
    retransmissions_max: int = 3
    """How often a peer is sent the same event because it asks."""

    backoff_us: int = MINUTE
    """How long a peer that was pruned may not come back."""
    backoff_us_max: int = HOUR
    """The longest that others may ask for."""
    backoff_slack_us: int = 2 * SECOND
    """How much later this node comes back, for clocks and links that are not the same."""
    graft_flood_us: int = 10 * SECOND
    """Whoever comes back so soon breaks the rules twice."""
    opportunistic_heartbeats: int = 60
    """Better peers are looked for in one of so many heartbeats."""
    opportunistic_count: int = 2

    scores: ScoreSettings = field(default_factory=ScoreSettings)
