"""How long FastDelivery waits for answers."""

from __future__ import annotations

from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.runtime.rtt import RoundTripEstimator, RttSettings, SharedBackoff

DOUBLINGS_MAX = 3
BACKOFF_MAX = 5


class AnswerTimeouts(RoundTripEstimator):
    """Four smoothed round trips, within limits; doubled after every `tries_max` transmissions."""

    def __init__(self, settings: FastSettings) -> None:
        super().__init__(
            RttSettings(
                timeout_us_first=settings.timeout_us_first,
                timeout_us_min=settings.timeout_us_min,
                timeout_us_max=settings.timeout_us_max,
                round_trips=4,
                variance_factor=0,
            )
        )
        self._tries_max = settings.tries_max
        self._backoff = SharedBackoff(BACKOFF_MAX)

    def sample(self, round_trip_us: int, *, transmissions: int = 1) -> None:
        """Take a measured round trip, unless the question was sent more than once."""
        super().sample(round_trip_us, transmissions=transmissions)
        self._backoff.on_answer(was_repeated=transmissions > 1)

    def on_timeout(self, asked_us: int, now: int) -> None:
        """Learn that a question was given up; questions of the same time count once."""
        self._backoff.on_timeout(asked_us, now)

    def timeout_us(self, transmissions: int = 1) -> int:
        """How long to wait for an answer."""
        # A request with a deadline is sent many times, but not more and more often.
        doublings = min((transmissions - 1) // self._tries_max, DOUBLINGS_MAX)
        return super().timeout_us(1 + self._backoff.doublings) << doublings
