"""What has happened in a worker and is not told yet."""

from __future__ import annotations

import resource
import socket
import time
from contextlib import suppress
from pathlib import Path

from smartpubsub.testbed.channel import ClosedError, send_now
from smartpubsub.testbed.messages import Note, Report, Setup, Usage, Value

_STATM = Path("/proc/self/statm")
_PAGE_MB = resource.getpagesize() / (1 << 20)


class Notebook:
    """Takes notes in the order of time, and tells them many at once."""

    def __init__(self, setup: Setup, end: socket.socket) -> None:
        self._setup = setup
        self._end = end
        self._notes: list[Note] = []

    def add(self, node: int, value: Value) -> None:
        """Note something that has just happened."""
        self._notes.append(Note(self._setup.now_us(), node, value))

    def tell(self) -> None:
        """Tell everything up to now.

        It is written at once and not when somebody has time: what has happened before a process is
        killed is known then.
        """
        notes, self._notes = self._notes, []
        report = Report(self._setup.now_us(), notes, usage())
        with suppress(ClosedError):  # Whoever reads commands will notice that nobody is there.
            send_now(self._end, report)


def usage() -> Usage:
    """What this process has used."""
    try:
        rss_mb = int(_STATM.read_text().split()[1]) * _PAGE_MB
    except OSError:  # Elsewhere than on Linux only the most that it ever was is known.
        rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Usage(time.process_time(), rss_mb)
