"""What a protocol declares about itself to a live node and to the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.capabilities import HasGroups, HasReplay, HasTopics
from smartpubsub.protocols.codecs import Codec, WireLimits
from smartpubsub.protocols.publication import Signing
from smartpubsub.protocols.pubsub import PubSub, Resident

RESILIENCES = ("crash", "audited", "byzantine")
"""The faults that a network tolerates: nodes that crash; also nodes that drop events silently; and,
at a higher cost, more nodes that lie."""
DEFAULT_RESILIENCE = "audited"


@dataclass(frozen=True, kw_only=True)
class ProtocolOptions:
    """The options that a user chooses for a node; each protocol uses those that it knows."""

    variant: str = ""
    """One of the protocol's variants; empty for its usual one."""
    backups: int = 2
    """How many other nodes keep a replica of this node's state."""
    region: str = ""
    """Where the node is; empty if it does not say."""
    capacity: int = 10
    """How many other nodes the node is ready to serve."""
    resilience: str = DEFAULT_RESILIENCE
    """One of `RESILIENCES`; all nodes of a network should have the same."""
    renew_us: int = 15 * MINUTE
    """How often a node renews its announcements."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Limits of a node's configuration, by their names there; empty for the usual ones."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the protocol, by their names, that an experiment changes."""


class EventLoad(NamedTuple):
    """A network in which events are published, to estimate what one event costs."""

    nodes: int
    publishers: int
    peer_count_max: float
    """About how many peers the best connected node has."""
    capacity_max: int
    """How many nodes the most capable node is ready to serve."""
    event_bytes: int
    """The length of an event on the wire."""


def _never(_: ProtocolOptions) -> bool:
    return False


def _none(_: ProtocolOptions, _nodes: int = 0) -> int:
    return 0


def a_fifth_if_audited(options: ProtocolOptions, nodes: int) -> int:
    """A fifth of the nodes, if nodes audit each other for dropped events."""
    return 0 if options.resilience == RESILIENCES[0] else nodes // 5


def _to_all_peers(load: EventLoad) -> float:
    return load.peer_count_max * load.event_bytes


@dataclass(frozen=True, kw_only=True)
class ProtocolSpec:
    """A protocol: how its core is made, its messages, what it promises, and what it offers."""

    name: str
    """The name that users know it by."""
    settings: Callable[[ProtocolOptions], Any]
    """The settings of a core, from the user's options."""
    make: Callable[[Any, Kademlia, Signing, Random], PubSub]
    """Make a core from its settings, the overlay below it, its signing and its randomness."""
    codecs: Callable[[WireLimits], Sequence[Codec]]
    """The codecs of its messages, under a node's limits."""

    # --- what users can choose ---

    variants: tuple[str, ...] = ()
    """The names of its variants; the last is the usual one."""

    # --- what it promises ---

    is_reliable: Callable[[ProtocolOptions], bool] = _never
    """Whether it promises to lose no event."""
    liar_count_max: Callable[[ProtocolOptions, int], int] = _none
    """How many lying nodes it tolerates without losing an event, by the size of the network."""
    keeper_count: Callable[[ProtocolOptions], int] = _none
    """How many nodes closest to an event's attribute keep it, if at least one of these must be
    honest and up; 0 if the protocol does not rely on them."""
    evidence: str = ""
    """The evidence by which its nodes convict others, such as `fork`; empty if there is none."""
    promises_order: bool = False
    """Whether it delivers a publisher's events to a subscription in the publisher's order."""
    clock_skew_us_max: int | None = None
    """By how much the clocks of two nodes may differ; None for any."""
    shares_signatures: bool = False
    """Whether its nodes accept events that share a signature with others of their publisher."""
    has_only_topics: bool = False
    """Whether subscriptions and events name a topic instead of stating a predicate."""
    stays_in_region: bool = False
    """Whether an event is in its subscriber's region after its first hop."""

    # --- what it offers beyond publishing and subscribing ---

    groups: Callable[[Any], HasGroups] | None = None
    """Get the object that creates groups from a core."""
    topics: Callable[[Any], HasTopics] | None = None
    """Get the object that creates topics from a core."""
    replay: Callable[[Any], HasReplay] | None = None
    """Get the object that delivers past events from a core."""
    has_attribute_trees: bool = False
    """Whether its nodes form a tree for each attribute, which `smartpubsub route` shows."""
    resident: Callable[[Any, Kademlia, Signing, Random], Resident] | None = None
    """Make a core that live nodes run beside another protocol; None if they do not."""

    # --- what experiments have to know ---

    group_for: Callable[[Predicate], Predicate] | None = None
    """The group that a publisher creates before it publishes an event; None if it needs none."""
    hottest_link_bytes: Callable[[EventLoad], float] = _to_all_peers
    """About how many bytes one event adds to the busiest link; it paces large networks."""
    event_cost: float = 1.0
    """About how much work an event is in the simulator, compared with ScoutSubs."""
    fuzzed_settings: frozenset[str] = frozenset()
    """The settings of its core that `sim fuzz` varies."""

    def core(
        self, options: ProtocolOptions, kademlia: Kademlia, signing: Signing, rng: Random
    ) -> PubSub:
        """Make a core that carries a node's subscriptions."""
        return self.make(self.settings(options), kademlia, signing, rng)

    def variant_of(self, options: ProtocolOptions) -> str | None:
        """The variant that options stand for; None if the protocol has no variants."""
        return self.variant(options.variant or None) or None

    def variant(self, wanted: str | None) -> str:
        """The variant that is meant by a name, or by none; empty if there are no variants."""
        if not self.variants:
            return ""
        if wanted is not None and wanted not in self.variants:
            raise SmartPubSubError(
                f"{self.name} has no variant {wanted}; it has {', '.join(self.variants)}"
            )
        return wanted or self.variants[-1]
