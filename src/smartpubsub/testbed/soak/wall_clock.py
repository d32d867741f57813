"""The time of day of this process, which can be set ahead or back.

A node reads the time of day when it starts, and py-libp2p does from time to time, both with
Python's `time`. Deadlines and timers follow the monotonic clock, which cannot be set.
"""

from __future__ import annotations

import time


class WallClock:
    """Replaces `time.time` and `time.time_ns` in this process."""

    def __init__(self) -> None:
        self.ahead_us = 0
        right_ns = time.time_ns

        def time_ns() -> int:
            return right_ns() + self.ahead_us * 1_000

        vars(time).update(time_ns=time_ns, time=lambda: time_ns() / 1e9)
