"""Round-trip times and the retransmission timeout of RFC 6298.

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
    """The timeout is this many smoothed round trips, and this many times their variance."""


def smoothed(before_us: int, sample_us: int, gain_up: int, gain_down: int) -> int:
    """Move an estimate towards a new sample, by the gain for its direction."""
    error_us = sample_us - before_us
    return before_us + error_us // (gain_up if error_us > 0 else gain_down)


class RoundTripEstimator:
    """Smoothed round trip, its variance, and the retransmission timeout that follows from both."""

    def __init__(self, settings: RttSettings) -> None:
        self._settings = settings
        self._smoothed_us = 0
        self._variance_us = 0
        self._has_sample = False
        self.timeout_us_once = self._bounded(settings.timeout_us_first)
        """How long to wait for an answer to the first transmission."""

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
            before_us = self._smoothed_us
            error_us = abs(round_trip_us - before_us)
            self._variance_us += (error_us - self._variance_us) // settings.gain_variance
            self._smoothed_us = smoothed(
                before_us, round_trip_us, settings.gain_up, settings.gain_down
            )
        self._set_timeout()

    def lower_to(self, smoothed_us: int) -> None:
        """Lower the smoothed round trip to an earlier one: later samples were misleading."""
        if self._has_sample and smoothed_us < self._smoothed_us:
            self._smoothed_us = smoothed_us
            self._set_timeout()

    def _set_timeout(self) -> None:
        timeout_us = self._settings.round_trips * self._smoothed_us
        timeout_us += self._settings.variance_factor * self._variance_us
        self.timeout_us_once = self._bounded(timeout_us)

    def _bounded(self, timeout_us: int) -> int:
        settings = self._settings
        return min(max(timeout_us, settings.timeout_us_min), settings.timeout_us_max)

    def timeout_us(self, transmissions: int = 1) -> int:
        """How long to wait for an answer; doubles with every transmission after the first."""
        if transmissions <= 1:
            return self.timeout_us_once
        doublings = min(transmissions - 1, BACKOFF_DOUBLINGS_MAX)
        return min(self.timeout_us_once << doublings, self._settings.timeout_us_max)


class SharedBackoff:
    """How often the timeout of all requests of one kind has doubled.

    It doubles as long as no request is answered at its first transmission: where links are full,
    retransmissions would fill them further, and answers would come after their requests were given
    up. A request that was begun before the last doubling doubles nothing: many requests that time
    out together say no more than one.
    """

    def __init__(self, doublings_max: int) -> None:
        self.doublings = 0
        self._doublings_max = doublings_max
        self._doubled_us = 0

    def on_answer(self, *, was_repeated: bool) -> None:
        """Reset the doublings if a request was answered at its first transmission."""
        if not was_repeated:
            self.doublings = 0

    def on_timeout(self, begun_us: int, now: int) -> None:
        """Double the timeout, unless the request was begun before the last doubling."""
        if begun_us >= self._doubled_us:
            self.doublings = min(self.doublings + 1, self._doublings_max)
            self._doubled_us = now
