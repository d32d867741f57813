"""How long to wait for answers, learned from the answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from smartpubsub.protocols.runtime.rtt import (
    RoundTripEstimator,
    RttSettings,
    SharedBackoff,
    smoothed,
)
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Peer

MS = 1_000
"""A millisecond in microseconds."""
SLOW_US = 3_000_000
DOUBLINGS_MAX = 6
BACKOFF_MAX = 5
BACKOFF_HEARD_MAX = 2
"""How often the timeout of a retransmission doubles at most: usually, and if the peer was heard
from since the last transmission, so that the message was lost and the link is not full."""
GAIN_UP = 2
GAIN_DOWN = 8
"""A slower answer counts for one half and a faster one for an eighth: a peer that is late now may
be later next time."""


def backed_off(timeout_us: int, transmissions: int, *, was_heard: bool) -> int:
    """The timeout after a number of transmissions of the same message."""
    return timeout_us << min(transmissions - 1, BACKOFF_HEARD_MAX if was_heard else BACKOFF_MAX)


class _LateAnswer(NamedTuple):
    """An answer to a probe that took longer than the longest timeout for all peers allows."""

    usual_us: int
    """The usual response time before the first of several such answers in a row."""
    sent_us: int
    """When this node sent the probe."""
    came_us: int
    """When the answer came."""


class ResponseTimes:
    """The usual response time of all peers, and of the slow ones one by one."""

    def __init__(self, settings: ScoutSettings) -> None:
        self._settings = settings
        self._usual = RoundTripEstimator(
            RttSettings(
                timeout_us_first=settings.timeout_us_first,
                timeout_us_min=settings.timeout_us_min,
                timeout_us_max=settings.timeout_us_max,
                gain_up=GAIN_UP,
                gain_down=GAIN_DOWN,
                round_trips=4,
                variance_factor=0,
            )
        )
        self._slow_us: dict[Peer, int] = {}
        """The response times of peers that need longer than the maximum for all."""
        self._late: dict[Peer, _LateAnswer] = {}
        """By peer: its last answer, if it was late."""

    def sample(self, us: int, transmissions: int = 1) -> None:
        """Take the response time of a request, unless it was retransmitted."""
        self._usual.sample(us, transmissions=transmissions)

    def sample_probe(self, peer: Peer, us: int, now: int) -> None:
        """Take the response time of a probe whose answer comes now; it may exceed the timeout.

        A peer that was paused answers all probes of that time at once, and later ones fast. Its
        link is not full, and its late answers say nothing about other peers.
        """
        is_late = 4 * us > self._settings.timeout_us_max
        last, usual_us = self._late.pop(peer, None), self._usual.smoothed_us
        was_paused = last is not None and (not is_late or self._are_together(last, now - us, now))
        if last is not None and was_paused and not self._late:
            self._usual.lower_to(last.usual_us)
        if not is_late or not was_paused:
            self.sample(us)
        slow_us = smoothed(self._slow_us.pop(peer, 0), us, GAIN_UP, GAIN_DOWN)
        if is_late and 4 * slow_us > self._settings.timeout_us_max:
            self._slow_us[peer] = slow_us
        if is_late:
            before_us = usual_us if last is None else last.usual_us
            self._late[peer] = _LateAnswer(before_us, now - us, now)

    def _are_together(self, last: _LateAnswer, sent_us: int, now: int) -> bool:
        """Whether an answer comes together with the last one, though their probes did not.

        On a full link the answers would be apart, as the probes were.
        """
        settings = self._settings
        is_together = now - last.came_us <= settings.batch_us
        return is_together and sent_us - last.sent_us >= settings.timeout_us_min

    @property
    def timeout_us(self) -> int:
        """How long to wait for an answer."""
        return self._usual.timeout_us_once

    @property
    def usual_us(self) -> int:
        """The usual time from a request to its answer; 0 before the first one."""
        return self._usual.smoothed_us

    @property
    def are_slow(self) -> bool:
        """Whether answers take so long that links may be full."""
        return self.timeout_us > SLOW_US

    def timeout_us_for(self, peer: Peer) -> int:
        """How long to wait for a peer's answer; longer if the peer is known to be slow.

        A full link delays everything behind it, and a replacement for the peer would add to the
        load.
        """
        return max(self.timeout_us, 4 * self._slow_us.get(peer, 0))

    def forget(self, is_known: Callable[[Peer], bool]) -> None:
        """Keep only the response times of known peers."""
        self._slow_us = {peer: us for peer, us in self._slow_us.items() if is_known(peer)}
        self._late = {peer: last for peer, last in self._late.items() if is_known(peer)}


class AdaptiveTimeout:
    """The retransmission timeout of one kind of request, learned from unrepeated requests."""

    def __init__(self, usual_us: int) -> None:
        self._usual_us = usual_us
        self._backoff = SharedBackoff(DOUBLINGS_MAX)

    def on_answer(self, us: int, *, was_repeated: bool) -> None:
        """Take the response time of a request."""
        if not was_repeated:
            self._usual_us = smoothed(self._usual_us, us, GAIN_UP, GAIN_DOWN)
        self._backoff.on_answer(was_repeated=was_repeated)

    def on_timeout(self, begun_us: int, now: int) -> None:
        """Note that a request which was begun at a time was not answered in time."""
        self._backoff.on_timeout(begun_us, now)

    def timeout_us(self, tries: int, *, least_us: int, most_us: int) -> int:
        """How long to wait after a number of tries."""
        usual_us = max(least_us, 4 * self._usual_us)
        doublings = max(self._backoff.doublings, tries)
        if not doublings:
            return usual_us
        return min(max(most_us, usual_us), usual_us << min(doublings, DOUBLINGS_MAX))
