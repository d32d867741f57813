"""How long FastDelivery waits for answers."""

from __future__ import annotations

from smartpubsub.protocols.fastdelivery.settings import FastSettings

DOUBLINGS_MAX = 3


class AnswerTimeouts:
    """Four smoothed round trips, within limits; doubled after every `tries_max` transmissions."""

    def __init__(self, settings: FastSettings) -> None:
        self._settings = settings
        self._smoothed_us = settings.timeout_us_first // 4
        self._has_sample = False

    def sample(self, round_trip_us: int, *, transmissions: int = 1) -> None:
        """Take a measured round trip, unless the question was sent more than once."""
        if transmissions > 1:
            return
        if self._has_sample:
            self._smoothed_us += (round_trip_us - self._smoothed_us) // 8
        else:
            self._smoothed_us, self._has_sample = round_trip_us, True

    def timeout_us(self, transmissions: int = 1) -> int:
        """How long to wait for an answer."""
        settings = self._settings
        timeout_us = max(settings.timeout_us_min, 4 * self._smoothed_us)
        # A request with a deadline is sent many times, but not more and more often.
        doublings = min((transmissions - 1) // settings.tries_max, DOUBLINGS_MAX)
        return min(settings.timeout_us_max, timeout_us) << doublings
