"""What a host has counted since it started."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counts:
    """Messages and bytes of the cores' own, without what libp2p adds."""

    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0
    writes: int = 0
    commits: int = 0

    dropped_full: int = 0
    """Messages for peers that take them too slowly, or questions to those that do not answer."""
    dropped_unreachable: int = 0
    """Messages for peers that could not be connected to or do not speak the protocol."""
    dropped_broken: int = 0
    """Messages that were being written when a stream broke, and may have arrived or not."""
    dropped_large: int = 0
    """Messages that are longer than their protocol allows."""

    garbage: int = 0
    """Bytes that came and were no message; each cost their sender a stream."""
    refused_large: int = 0
    """Messages that were longer than is taken; each cost their sender a stream."""
    refused_rate: int = 0
    """Messages that came far too fast; each cost their sender a stream."""
    delayed: int = 0
    """Messages that came too fast and had to wait."""
    refused_streams: int = 0
    """Streams beyond those that a peer may have."""
    refused_connections: int = 0
    """Connections beyond those that there may be."""
    unanswered: int = 0
    """Questions that streams were given up for, others' and ours."""
    failed_dials: int = 0
    pruned: int = 0
    """Connections that were closed to have room for others."""

    sent_kinds: Counter[str] = field(default_factory=Counter)
    received_kinds: Counter[str] = field(default_factory=Counter)
    """What messages were about, by kind: in ScoutSubs one may be about much."""
    refused_kinds: Counter[str] = field(default_factory=Counter)
    """Of what came too fast, whether it had to wait or was refused."""

    @property
    def dropped(self) -> int:
        """Messages that were to be sent and were not, as far as is known."""
        return (
            self.dropped_full + self.dropped_unreachable + self.dropped_broken + self.dropped_large
        )
