"""The constants of Pulsarcast, and limits on everything that is kept. Times are in microseconds."""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.kademlia.settings import MINUTE, SECOND


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How much of a topic is kept; the oldest goes first. A pinned topic is kept whole."""

    age_us_max: int | None = None
    event_count_max: int = 100_000
    byte_count_max: int = 256 << 20


@dataclass(frozen=True, kw_only=True)
class PulsarSettings:
    """What a node does, how patient it is, and how much it keeps."""

    keepers: int = 3
    """On how many of the nodes closest to a topic its events are stored before they count as
    published: f + 1."""
    fan_out_max: int = 4
    """How many children a node takes in a tree before it hands newcomers down."""

    beat_us: int = 3 * SECOND
    """How often a child and its parent tell each other what they have."""
    tries_max: int = 2
    """How often a neighbour that is silent is tried again."""
    patience_us: int = SECOND
    """How long a neighbour's answer is waited for; longer where answers usually take longer."""
    join_us: int = 3 * SECOND
    """How long somebody who looks for its own place is waited for, and how often that is tried."""
    avoid_us: int = 30 * SECOND
    """How long somebody who did not answer is not joined again."""
    proof_us: int = MINUTE
    """How often a root has a lookup say whether it still is one, and who keeps the topic."""
    keep_us: int = 4 * SECOND
    """How long to wait for keepers before they are looked for again."""
    keepers_us: int = 2 * MINUTE
    """How long those who were found are taken to be a topic's keepers."""
    lease_us: int = 30 * MINUTE
    """How long a keeper that nobody reminds goes on."""
    request_us: int = 6 * SECOND
    """How long a publisher's answer to a request is waited for; longer after each try."""
    request_us_max: int = MINUTE
    fetch_us: int = 5 * SECOND
    """How long missed events are waited for before somebody else is asked."""
    grace_us: int = SECOND * 3 // 10
    """How long what is missing may still be on its way before it is asked for."""
    lost_us: int = 10 * MINUTE
    """How long what is missing is looked for everywhere."""
    skew_us_max: int = 5 * MINUTE
    """How far clocks may differ."""

    page_count_max: int = 500
    page_bytes_max: int = 256 << 10
    """How much of what somebody has missed goes in one message."""
    names_max: int = 256
    """How many names of events a message carries."""
    room_count_max: int = 10_000
    version_count_max: int = 1_000
    """Versions of a topic that are remembered."""
    waiting_count_max: int = 1_000
    """Nodes that wait for this one to have its place in a tree."""
    pending_count_max: int = 100_000
    """Events that wait to be stored, and requests that wait to be granted, in one topic."""
    request_count_max: int = 1_000
    """Requests of one author that came too early."""
    unspread_count_max: int = 10_000
    retention: Retention = Retention()
    stored_bytes_max: int = 16 << 30
    """Of all topics' events together; beyond it the largest topic lets its oldest go."""
