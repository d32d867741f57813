"""How long FastDelivery waits for answers."""

from __future__ import annotations

from smartpubsub.protocols.fastdelivery.settings import FastSettings

DOUBLINGS_MAX = 3
BACKOFF_MAX = 5


class AnswerTimeouts:
    """Four smoothed round trips, within limits; doubled after every `tries_max` transmissions.

    While no question is answered at its first transmission, the timeout doubles for all questions:
    where links are full, retransmissions would fill them further, and answers would come after
    their questions were given up.
    """

    def __init__(self, settings: FastSettings) -> None:
        self._settings = settings
        self._smoothed_us = settings.timeout_us_first // 4
        self._has_sample = False
        self._backoff = 0
        self._backed_off_us = 0

    def sample(self, round_trip_us: int, *, transmissions: int = 1) -> None:
        """Take a measured round trip, unless the question was sent more than once."""
        if transmissions > 1:
            return
        self._backoff = 0
        if self._has_sample:
            self._smoothed_us += (round_trip_us - self._smoothed_us) // 8
        else:
            self._smoothed_us, self._has_sample = round_trip_us, True

    def on_timeout(self, asked_us: int, now: int) -> None:
        """Learn that a question was given up; questions of the same time count once."""
        if asked_us >= self._backed_off_us:
            self._backoff = min(self._backoff + 1, BACKOFF_MAX)
            self._backed_off_us = now

    def timeout_us(self, transmissions: int = 1) -> int:
        """How long to wait for an answer."""
        settings = self._settings
        timeout_us = max(settings.timeout_us_min, 4 * self._smoothed_us) << self._backoff
        # A request with a deadline is sent many times, but not more and more often.
        doublings = min((transmissions - 1) // settings.tries_max, DOUBLINGS_MAX)
        return min(settings.timeout_us_max, timeout_us) << doublings
