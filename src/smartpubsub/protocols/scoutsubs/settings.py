"""The constants of ScoutSubs, and limits on everything that is kept. Times are in microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from smartpubsub.kademlia.settings import MINUTE, SECOND


class Mapping(Enum):
    """Which of a predicate's attributes a subscription is kept under."""

    SHARED = "shared"
    """The one that comes first in an order that all nodes share, so that equal and similar
    predicates meet in one tree and an event has few trees to go down."""
    NEAREST = "nearest"
    """The one whose key lies closest to the subscriber, as the papers have it."""


@dataclass(frozen=True, kw_only=True)
class ScoutSettings:
    """What a node does, how patient it is, and how much it keeps."""

    is_reliable: bool = True
    """Whether rendezvous track events until all have confirmed them."""
    redirects: bool = True
    """Whether nodes that only pass on offer a shortcut past themselves."""
    mapping: Mapping = Mapping.SHARED
    backups: int = 2
    """How many others keep a copy of what a node keeps: f."""

    fan_out_max: int = 4
    """How many children a node takes in a tree before it sends newcomers on to one of them; 0 for
    any number. Few, so that what a popular attribute takes is shared by all who want it."""

    hot_copies_per_s: int = 50
    """A rendezvous that begins to send so many copies of events, and half as many of others than
    the one who publishes most, splits its attribute over several keys; 0 for never. Only where
    events are tracked: otherwise they spread on their way up."""

    renew_us: int = 15 * MINUTE
    """How often a node renews what it has announced: t. Unless renewed it lapses after 2t."""
    probe_us: int = 20 * SECOND
    """How often a node looks whether those that it depends on are there."""
    suspect_us: int = MINUTE
    """How long somebody who did not answer is avoided."""
    batch_us: int = 5_000
    """What is said to one peer within this time goes in one message."""

    piece_bytes_max: int = 512 << 10
    """Of the lists in a part; a longer part is sent in pieces."""

    patience_us_first: int = SECOND
    patience_us_min: int = SECOND // 2
    patience_us_max: int = 10 * SECOND
    """How long an answer is waited for: at first, and as it adapts, between these."""
    check_us_min: int = 2 * SECOND
    check_us_max: int = 30 * SECOND
    """How long confirmations are waited for before an event is sent again, which adapts too."""
    tries_max: int = 3
    """After so many tries without an answer a peer is suspected."""
    hold_us_max: int = 10 * SECOND
    """How long an event waits for the one before it of the same publisher, at most; usually for
    twice as long as answers are waited for."""

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
    stored_bytes_max: int = 512 << 20
    """Of events and filters in storage."""

    history_us_max: int = 0
    """How long events are kept for those who subscribe later; 0 for not at all."""
    history_count_max: int = 10_000
    """Of one attribute; the oldest go first."""
    history_bytes_max: int = 64 << 20
    """Of all attributes together, with what events take in memory beside what they say."""
    page_count_max: int = 500
    page_bytes_max: int = 256 << 10
    """How much of what is kept goes in one message."""
    recall_count_max: int = 100
    """How many subscriptions of a node read history at a time."""
    recalled_count_max: int = 100_000
    recalled_bytes_max: int = 128 << 20
    """How much one of them reads, with what comes for it meanwhile."""

    @property
    def seen_us(self) -> int:
        """How long an event is remembered, so that no copy of it is delivered again.

        Longer than any rendezvous sends it, which is 2t.
        """
        return 3 * self.renew_us


def settings_for(variant: str, backups: int) -> ScoutSettings:
    """The settings of a variant, by the name that users know it by."""
    kind, _, reliability = variant.partition("-")
    return ScoutSettings(
        is_reliable=reliability == "reliable", redirects=kind == "redirect", backups=backups
    )
