"""When peers were last heard from, and how long neighbours take to answer."""

from __future__ import annotations

from smartpubsub.protocols.pulsarcast.messages import Part
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.protocols.runtime.rtt import RoundTripEstimator, RttSettings
from smartpubsub.seam import Peer

HEARD_COUNT_MAX = 4_096
_GAIN_UP = 2
"""A slower answer counts for one half: if links fill up, the next answer may be slower still."""


class Liveness:
    """Tells busy peers from lost ones, and derives timeouts from measured round trips."""

    def __init__(self, outbox: Outbox[Part], settings: PulsarSettings) -> None:
        self._outbox = outbox
        self._settings = settings
        self._round_trips = RoundTripEstimator(
            RttSettings(
                timeout_us_first=settings.timeout_us,
                timeout_us_min=settings.timeout_us,
                timeout_us_max=settings.avoid_us,
                gain_up=_GAIN_UP,
            )
        )
        self._heard_us: BoundedDict[Peer, int] = BoundedDict(HEARD_COUNT_MAX)

    def note_heard(self, peer: Peer) -> None:
        """Note that a peer has sent a message, in any topic."""
        self._heard_us[peer] = self._outbox.now

    def is_heard_since(self, peer: Peer, since_us: int) -> bool:
        """Whether a peer has sent a message after a time."""
        return self._heard_us.get(peer, since_us) > since_us

    def sample(self, round_trip_us: int) -> None:
        """Take the measured round trip of a neighbour's answer to the last transmission."""
        self._round_trips.sample(round_trip_us)

    @property
    def round_trip_us(self) -> int:
        """The smoothed round-trip time to neighbours."""
        return self._round_trips.smoothed_us

    def at_least(self, timeout_us: int, round_trips: int) -> int:
        """Return a timeout that is no shorter than a number of round trips."""
        return max(timeout_us, round_trips * self.round_trip_us)

    def timeout_us(self, transmissions: int = 1) -> int:
        """Return how long to wait for a neighbour's answer before a retransmission."""
        return self._round_trips.timeout_us(transmissions)

    @property
    def grace_us(self) -> int:
        """How long a missing event may still be on its way through the tree."""
        return self.at_least(self._settings.grace_us, 3)

    def check(self) -> None:
        """Assert the invariants of this component."""
        assert len(self._heard_us) <= HEARD_COUNT_MAX
