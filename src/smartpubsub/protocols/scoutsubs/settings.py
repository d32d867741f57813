"""The constants and limits of ScoutSubs. Times are in microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.lazy import Lazy


class Mapping(Enum):
    """The choice of the attribute in whose tree a subscription is kept."""

    SHARED = "shared"
    """The first one in an order that all nodes share. Equal and similar predicates meet in one
    tree, and an event passes through few trees."""
    NEAREST = "nearest"
    """The one whose key is closest to the subscriber, as in the papers."""


@dataclass(frozen=True, kw_only=True)
class ScoutSettings:
    """Variant, timeouts and limits of a node."""

    is_reliable: bool = True
    """Whether rendezvous retransmit events until all subscribers have confirmed them."""
    redirects: bool = True
    """Whether nodes that only forward events offer a shortcut past themselves."""
    mapping: Mapping = Mapping.SHARED
    backups: int = 2
    """The number of replicas of a node's state: f."""

    fan_out_max: int = 4
    """A node with this many children in a tree sends newcomers to one of them; 0 for no limit. It
    is small, so that all subscribers share the load of a popular attribute."""

    hot_copies_per_s: int = 50
    """A rendezvous that sends this many copies of events, and half as many not counting its busiest
    publisher, splits its attribute over several keys; 0 for never. Only in reliable variants: in
    others, events go down the tree on their way up."""

    renew_us: int = 15 * MINUTE
    """How often a node renews its announcements: t. Filters that are not renewed lapse after 2t."""
    probe_us: int = 20 * SECOND
    """How often a node probes the peers that it depends on."""
    suspect_us: int = MINUTE
    """How long a peer that did not answer is suspected."""
    batch_us: int = 5_000
    """Messages to one peer within this time go in one bundle."""

    piece_bytes_max: int = 512 << 10
    """The longest lists in a message; a longer message is sent in fragments."""

    timeout_us_first: int = SECOND
    timeout_us_min: int = SECOND // 2
    timeout_us_max: int = 10 * SECOND
    """The response timeout: at first, and its bounds as it adapts."""
    check_us_min: int = 2 * SECOND
    check_us_max: int = 30 * SECOND
    """The bounds of the confirmation timeout, after which an event is retransmitted."""
    tries_max: int = 3
    """A peer that answers none of this many tries is suspected."""
    hold_us_max: int = 10 * SECOND
    """The longest time that an event waits for its predecessor; usually it is twice the response
    timeout."""

    seen_count_max: int = 200_000
    tree_count_max: int = 10_000
    child_count_max: int = 10_000
    """Children in one tree."""
    filter_count_max: int = 100_000
    """Filters of one peer, in all trees together."""
    attribute_count_per_peer_max: int = 5_000
    """Attributes that one peer may have filters under."""
    record_count_max: int = 100_000
    """Events that are not yet confirmed."""
    relayed_bytes_max: int = 128 << 20
    """About the size of all events in flight that other nodes have sent down a tree; one peer may
    have sent at most as much as there is free room."""
    late_us: int = 5 * MINUTE
    late_count_max: int = 10_000
    """An event that a child does not confirm for `late_us` is late. If it has more late events than
    `late_count_max`, or other events need the room, the child loses the oldest."""
    copied_bytes_max: int = 128 << 20
    """About the size of all copies of other nodes' tables; one peer may have at most as much as
    there is free room."""
    stored_bytes_max: int = 512 << 20
    """The size of all stored events and filters."""

    history_us_max: int = 0
    """How long completed events stay as history; 0 for no history."""
    history_count_max: int = 10_000
    """How many events of one attribute stay; the oldest go first."""
    history_bytes_max: int = 64 << 20
    """The size of all history, with the overhead of events in memory."""
    page_count_max: int = 500
    page_bytes_max: int = 256 << 10
    """The limits of one answer with history."""
    recall_count_max: int = 100
    """The number of a node's subscriptions whose replay is under way."""
    recalled_count_max: int = 100_000
    recalled_bytes_max: int = 128 << 20
    """The limits of one replay, with the events that arrive meanwhile."""

    audit_us_min: int = 5 * SECOND
    audit_us_max: int = 0
    """The shortest and longest interval between audits of a tree. It doubles while no event is
    missing, and returns to the shortest after a loss. A longest interval of 0 turns audits off."""
    audit_peer_count: int = 2
    """How many keepers a subscriber asks at a time; after a loss it asks all."""
    audit_path_count: int = 1
    """On how many disjoint paths a subscriber looks keepers up."""
    audit_grace_us: int = SECOND
    audit_grace_us_max: int = 2 * MINUTE
    """How long an event may be on its way down the tree before it counts as missed: usually, and on
    slow links. Nodes that delay events make links seem slow."""

    region_size: int = 0
    """The keepers of a tree are all nodes in a region around its key that holds about twice as many
    or more; 0 for the 2f + 1 closest."""
    keeper_quorum: int = 0
    """How many keepers, if there are as many, must have signed that they keep an event before it is
    published; 0 if the rendezvous and its replicas are enough."""

    @Lazy
    def has_audits(self) -> bool:
        """Whether subscribers look for events that they have missed; only if none may be lost."""
        return self.is_reliable and bool(self.audit_us_max)

    @property
    def seen_us(self) -> int:
        """How long an event is recognised, so that it is delivered once.

        Longer than any rendezvous retransmits it, which is 2t.
        """
        return 3 * self.renew_us


AUDITED = {"audit_us_max": 60 * SECOND}
"""What `resilience = "audited"` changes."""
BYZANTINE = {
    "audit_us_min": 2 * SECOND,
    "audit_us_max": 6 * SECOND,
    "audit_peer_count": 4,
    "audit_path_count": 2,
    "audit_grace_us": SECOND // 2,
    "audit_grace_us_max": 2 * SECOND,
    "region_size": 8,
    "keeper_quorum": 6,
}
"""What `resilience = "byzantine"` changes."""


def settings_for(variant: str, backups: int) -> ScoutSettings:
    """The settings of a variant, by its name on the command line."""
    kind, _, reliability = variant.partition("-")
    return ScoutSettings(
        is_reliable=reliability == "reliable", redirects=kind == "redirect", backups=backups
    )
