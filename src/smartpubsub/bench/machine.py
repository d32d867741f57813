"""The machine that a benchmark runs on."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

import numpy as np

_BANDWIDTH_BYTES = 1 << 28


def describe() -> dict[str, object]:
    """The properties of the machine that a reader needs to interpret figures."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30), 1
        ),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def memory_bandwidth() -> float:
    """Bytes per second that one core reads from large arrays, the best of a few tries."""
    numbers = np.ones(_BANDWIDTH_BYTES // 8)
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        numbers.sum()
        seconds.append(time.perf_counter() - start)
    return _BANDWIDTH_BYTES / min(seconds)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
