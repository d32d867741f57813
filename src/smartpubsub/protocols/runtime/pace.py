"""A rate with bursts: how long the next piece of a peer's work has to wait."""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.kademlia.settings import SECOND


@dataclass(frozen=True, slots=True)
class Rate:
    """A number of pieces of work per second, and the size of a burst after a pause."""

    per_second: int
    burst: int

    @property
    def piece_us(self) -> int:
        """The time that one piece of work takes at this rate."""
        return SECOND // self.per_second


@dataclass(slots=True)
class Pace:
    """How much work a peer has caused so far."""

    paid_until_us: int
    """The time at which that much work is within the rate."""

    def wait_us(self, rate: Rate, now: int) -> int:
        """How long the peer has to wait until it is within its rate."""
        return max(0, self.paid_until_us - now - rate.burst * rate.piece_us)

    def charge(self, rate: Rate, now: int, pieces: int = 1) -> None:
        """Count pieces of work that were done for the peer."""
        self.paid_until_us = max(self.paid_until_us, now) + pieces * rate.piece_us

    def is_idle(self, now: int) -> bool:
        """Whether the peer has used nothing of its burst, so that it need not be remembered."""
        return self.paid_until_us <= now
