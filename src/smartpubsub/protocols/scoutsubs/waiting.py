"""How long to wait for what usually takes a while, before it is done again."""

from __future__ import annotations

DOUBLINGS_MAX = 6
"""The wait doubles so often at most."""


class Waiting:
    """Learns how long something takes, from those times when it was done only once.

    If it was done again nobody knows what was answered. So as long as nothing is answered in time
    the wait doubles, also that for the next one: where everything takes long, since links are full,
    all would be done again and again otherwise. Of what was begun before it last doubled, nothing
    makes it double: many that wait at the same time say no more than one.
    """

    def __init__(self, usual_us: int) -> None:
        self._usual_us = usual_us
        self._doublings = 0
        self._doubled_us = 0

    def on_answer(self, us: int, *, was_repeated: bool) -> None:
        """Something was answered after a time."""
        if not was_repeated:
            # Up quickly and down slowly: what was late now may be later next time.
            self._usual_us += (us - self._usual_us) // (2 if us > self._usual_us else 8)
            self._doublings = 0

    def on_silence(self, begun_us: int, now: int) -> None:
        """Something was not answered in time since it was begun."""
        if begun_us >= self._doubled_us:
            self._doublings = min(self._doublings + 1, DOUBLINGS_MAX)
            self._doubled_us = now

    def wait_us(self, tries: int, *, least_us: int, most_us: int) -> int:
        """How long to wait after so many tries: longer than usual, and from time to time longer."""
        usual_us = max(least_us, 4 * self._usual_us)
        longest_us = max(most_us, usual_us)
        return min(longest_us, usual_us << min(max(self._doublings, tries), DOUBLINGS_MAX))
