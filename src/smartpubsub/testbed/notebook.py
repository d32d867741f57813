"""The notes of a worker that are not reported yet."""

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
    """Collects notes in the order of time, and reports them in batches."""

    def __init__(self, setup: Setup, end: socket.socket) -> None:
        self._setup = setup
        self._end = end
        self._notes: list[Note] = []

    def add(self, node: int, value: Value) -> None:
        """Add a note with the current time."""
        self._notes.append(Note(self._setup.now_us(), node, value))

    def report(self) -> None:
        """Report everything up to now.

        The write is synchronous, so that nothing before a kill is lost.
        """
        notes, self._notes = self._notes, []
        report = Report(self._setup.now_us(), notes, usage())
        with suppress(ClosedError):  # The task that reads commands notices the closed channel.
            send_now(self._end, report)


def usage() -> Usage:
    """The resource use of this process."""
    try:
        rss_mb = int(_STATM.read_text().split()[1]) * _PAGE_MB
    except OSError:  # Without /proc, only the peak is known.
        rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Usage(time.process_time(), rss_mb)
