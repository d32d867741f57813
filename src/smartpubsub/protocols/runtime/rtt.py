"""Round-trip times and the retransmission timeout, as RFC 6298 has them.

The gains are settings: where links fill up, a protocol may trust a slower answer sooner than a
faster one. Karn's rule holds: an answer to a message that was sent more than once is not a sample.
"""

from __future__ import annotations

from dataclasses import dataclass

BACKOFF_DOUBLINGS_MAX = 6


@dataclass(frozen=True, kw_only=True)
class RttSettings:
    """The bounds of the timeout, and how fast the estimates follow new samples.

    A gain of 8 means that a new sample counts for one eighth.
    """

    timeout_us_first: int
    """The timeout before any sample."""
    timeout_us_min: int
    timeout_us_max: int
    gain_up: int = 8
    """For samples above the smoothed round trip."""
    gain_down: int = 8
    gain_variance: int = 4
    round_trips: int = 1
    variance_factor: int = 4
    """The timeout is so many smoothed round trips, and so many times their variance."""


class RoundTripEstimator:
    """Smoothed round trip, its variance, and the retransmission timeout that follows from both."""

    def __init__(self, settings: RttSettings) -> None:
        self._settings = settings
        self._smoothed_us = 0
        self._variance_us = 0
        self._has_sample = False
        self._timeout_us = self._bounded(settings.timeout_us_first)

    @property
    def smoothed_us(self) -> int:
        """The smoothed round trip; 0 before any sample."""
        return self._smoothed_us

    def sample(self, round_trip_us: int, *, transmissions: int = 1) -> None:
        """Take a measured round trip, unless the message was sent more than once."""
        if transmissions > 1:
            return
        settings = self._settings
        round_trip_us = min(max(round_trip_us, 0), settings.timeout_us_max)
        if not self._has_sample:
            self._has_sample = True
            self._smoothed_us, self._variance_us = round_trip_us, round_trip_us // 2
        else:
            error_us = round_trip_us - self._smoothed_us
            gain = settings.gain_up if error_us > 0 else settings.gain_down
            self._variance_us += (abs(error_us) - self._variance_us) // settings.gain_variance
            self._smoothed_us += error_us // gain
        timeout_us = settings.round_trips * self._smoothed_us
        timeout_us += settings.variance_factor * self._variance_us
        self._timeout_us = self._bounded(timeout_us)

    def _bounded(self, timeout_us: int) -> int:
        settings = self._settings
        return min(max(timeout_us, settings.timeout_us_min), settings.timeout_us_max)

    def timeout_us(self, transmissions: int = 1) -> int:
        """How long to wait for an answer; doubles with every transmission after the first."""
        if transmissions <= 1:
            return self._timeout_us
        doublings = min(transmissions - 1, BACKOFF_DOUBLINGS_MAX)
        return min(self._timeout_us << doublings, self._settings.timeout_us_max)
