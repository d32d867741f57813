"""By how much the clock of the machine was set between two starts of a node.

A node stores times. If the clock was set while the node was down, an age that it computes from a
stored time is wrong. The machine's uptime cannot be set, so the node stores at each start how far
the time of day was ahead of the uptime. If the machine has restarted since, a node cannot know by
how much the clock was set.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from smartpubsub.node.transport.timers import MICROSECONDS

NOTICED_US = MICROSECONDS
"""A smaller difference is imprecision."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_AHEAD = Struct(">q")


class Uptime(NamedTuple):
    """How long the machine has been up, and an id of this time."""

    boot_id: bytes
    us: int


def uptime() -> Uptime | None:
    """Read the uptime, including the time in which the machine slept; None if it has none."""
    try:
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        return Uptime(_BOOT_ID.read_bytes().strip(), now_ns // 1_000)
    except (AttributeError, OSError):  # Only Linux has these.
        return None


def clock_set(
    now_us: int, stored: bytes | None, read: Callable[[], Uptime | None] = uptime
) -> tuple[int, bytes | None]:
    """By how much the clock was set since a value was stored, and the value to store now."""
    up = read()
    if up is None:
        return 0, None
    ahead_us = now_us - up.us
    value = _AHEAD.pack(ahead_us) + up.boot_id
    if stored is None or stored[_AHEAD.size :] != up.boot_id:
        return 0, value
    set_us = ahead_us - _AHEAD.unpack_from(stored)[0]
    return (set_us if abs(set_us) >= NOTICED_US else 0), value
