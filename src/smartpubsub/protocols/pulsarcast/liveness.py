"""When peers were last heard from, and how long neighbours take to answer."""

from __future__ import annotations

from smartpubsub.protocols.pulsarcast.messages import Part
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.seam import Peer

HEARD_COUNT_MAX = 4_096
_GAIN_UP, _GAIN_DOWN = 2, 8
"""Smoothed round-trip time: gain 1/2 upward, 1/8 downward."""


class Liveness:
    """Tells busy peers from lost ones, and derives timeouts from measured round trips."""

    def __init__(self, outbox: Outbox[Part], settings: PulsarSettings) -> None:
        self._outbox = outbox
        self._settings = settings
        self.round_trip_us = settings.grace_us // 2
        """The smoothed round-trip time to neighbours."""
        self._heard_us: BoundedDict[Peer, int] = BoundedDict(HEARD_COUNT_MAX)

    def note_heard(self, peer: Peer) -> None:
        """Note that a peer has sent a message, in whichever topic."""
        self._heard_us[peer] = self._outbox.now

    def is_heard_since(self, peer: Peer, since_us: int) -> bool:
        """Whether a peer has sent a message after a time."""
        return self._heard_us.get(peer, since_us) > since_us

    def sample(self, round_trip_us: int) -> None:
        """Take the measured round trip of a neighbour's answer."""
        round_trip_us = min(round_trip_us, self._settings.avoid_us)
        gain = _GAIN_UP if round_trip_us > self.round_trip_us else _GAIN_DOWN
        self.round_trip_us += (round_trip_us - self.round_trip_us) // gain

    def at_least(self, timeout_us: int, round_trips: int) -> int:
        """Return a timeout that is no shorter than so many round trips."""
        return max(timeout_us, round_trips * self.round_trip_us)

    @property
    def timeout_us(self) -> int:
        """How long to wait for a neighbour's answer before a retransmission."""
        return max(self._settings.timeout_us, 5 * self.round_trip_us // 2)

    @property
    def grace_us(self) -> int:
        """How long a missing event may still be on its way through the tree."""
        return self.at_least(self._settings.grace_us, 3)

    def check(self) -> None:
        """Assert the invariants of this component."""
        assert len(self._heard_us) <= HEARD_COUNT_MAX
