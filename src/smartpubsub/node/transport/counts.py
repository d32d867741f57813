"""Counters of a host since its start."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counts:
    """Messages and bytes of the cores, without the overhead of libp2p."""

    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0
    writes: int = 0
    commits: int = 0

    queued_bytes: int = 0
    """Bytes of messages that wait to be written now."""
    dropped_full: int = 0
    """Messages for peers that read too slowly, and questions to peers that do not answer."""
    dropped_unreachable: int = 0
    """Messages for peers that could not be connected to or do not speak the protocol."""
    dropped_broken: int = 0
    """Messages that were being written when a stream broke; they may have arrived."""
    dropped_large: int = 0
    """Messages that are longer than their protocol allows."""

    garbage: int = 0
    """Received bytes that could not be decoded; the node reset the stream each time."""
    refused_large: int = 0
    """Received messages beyond the size limit; the node reset the stream each time."""
    refused_rate: int = 0
    """Received messages far beyond the rate limit; the node reset the stream each time."""
    delayed: int = 0
    """Received messages beyond the rate limit, which were delayed."""
    delayed_expensive: int = 0
    """Received messages of peers that cost more than their share, which were delayed."""
    refused_unfinished: int = 0
    """Received messages that took too long to arrive, or found no room while incomplete."""
    refused_streams: int = 0
    """Streams beyond the limit of a peer."""
    refused_connections: int = 0
    """Connections beyond the limit."""
    refused_prefix: int = 0
    """Connections beyond the limit of an address prefix."""
    refused_banned: int = 0
    """Connections and streams of banned peers."""
    unanswered: int = 0
    """Questions, sent or received, whose stream ended before the answer."""
    failed_dials: int = 0
    unheeded: int = 0
    """Answers of peers that had named too many unreachable peers."""
    pruned: int = 0
    """Connections closed to make room for others."""

    sent_kinds: Counter[str] = field(default_factory=Counter)
    received_kinds: Counter[str] = field(default_factory=Counter)
    """Messages by kind; a ScoutSubs bundle counts once for each entry."""
    refused_kinds: Counter[str] = field(default_factory=Counter)
    """Messages beyond the rate limit by kind, delayed or refused."""

    @property
    def dropped(self) -> int:
        """Messages that were not sent."""
        return (
            self.dropped_full + self.dropped_unreachable + self.dropped_broken + self.dropped_large
        )
