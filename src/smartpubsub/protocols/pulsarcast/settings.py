"""The constants and limits of Pulsarcast. Times are in microseconds."""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.kademlia.settings import MINUTE, SECOND

STAY_US = 10 * MINUTE
"""How long a node that has used a topic stays in its tree without a subscription."""


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How much of a topic a node retains; the oldest events are pruned first.

    A pinned topic is retained whole.
    """

    age_us_max: int | None = None
    event_count_max: int = 100_000
    byte_count_max: int = 256 << 20


@dataclass(frozen=True, kw_only=True)
class PulsarSettings:
    """Timeouts, intervals and limits of one node."""

    keepers: int = 3
    """How many of the nodes closest to a topic store an event before it counts as published:
    f + 1."""
    fan_out_max: int = 4
    """How many children a node takes in a tree before it redirects peers that join."""
    has_audits: bool = False
    """Whether members compare their heads with those of keepers and of the author."""

    beat_us: int = 3 * SECOND
    """The interval of heartbeats between children and parents."""
    tries_max: int = 2
    """How many retransmissions a silent neighbour gets."""
    timeout_us: int = SECOND
    """The shortest timeout for a neighbour's answer; it grows with measured round trips."""
    join_us: int = 3 * SECOND
    """How long to wait for a candidate that looks for its own place, and the retry interval."""
    avoid_us: int = 30 * SECOND
    """How long a peer that did not answer is not asked again."""
    proof_us: int = MINUTE
    """How often a root confirms by a lookup that it is root, and looks up the keepers."""
    keep_us: int = 4 * SECOND
    """How long to wait for keepers before the next lookup."""
    keepers_us: int = 2 * MINUTE
    """How long the result of a lookup for keepers is used."""
    lease_us: int = 30 * MINUTE
    """How long a keeper remains one without an invitation or an event."""
    request_us: int = 6 * SECOND
    """The first timeout for a publisher's answer to a request; it doubles with each try."""
    request_us_max: int = MINUTE
    fetch_us: int = 5 * SECOND
    """How long to wait for a page of events before another peer is asked."""
    grace_us: int = SECOND * 3 // 10
    """How long a missing event may still be on its way before it is fetched."""
    lost_us: int = 10 * MINUTE
    """How long a missing event is asked for before it is given up."""
    skew_us_max: int = 5 * MINUTE
    """By how much clocks may differ."""

    page_count_max: int = 500
    page_bytes_max: int = 256 << 10
    """The limits of one page of events."""
    names_max: int = 256
    """How many content ids a message carries."""
    topic_count_max: int = 10_000
    version_count_max: int = 1_000
    """Versions of one topic."""
    waiting_count_max: int = 1_000
    """Peers that wait for this node to get its place in a tree."""
    pending_count_max: int = 100_000
    """Events that wait to be stored, and requests that wait for an answer, in one topic."""
    request_count_max: int = 1_000
    """Requests of one author that came before their turn."""
    unspread_count_max: int = 10_000
    """Fetched events of one topic that may still come through the tree."""
    retention: Retention = Retention()
    stored_bytes_max: int = 16 << 30
    """The size of the events of all topics; beyond it, the node prunes the largest topic."""
    descriptor_bytes_max: int = 4 << 30
    """The size of the descriptors of all topics; beyond it, the node takes no other topic."""
