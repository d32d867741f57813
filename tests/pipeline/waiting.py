"""Waiting for what another process does."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

PATIENCE_S = 300
QUICK = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"
"""A setting for processes that end before Java's optimising compiler would pay."""


def until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait for a condition; fail if it takes for ever or the process ends before."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None, "it ended too soon"
        assert time.monotonic() < deadline, "it takes for ever"
        time.sleep(0.05)
