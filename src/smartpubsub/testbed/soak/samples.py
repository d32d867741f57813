"""Samples of the resource use of the nodes' processes, and its growth."""

from __future__ import annotations

import resource
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import NamedTuple

from smartpubsub.testbed.soak.disks import used_bytes

HOUR_S = 3_600.0
PAIRED_MAX = 400
"""A slope is computed from this many samples at most, at equal distances."""
STRETCH_S_MIN = 30.0
"""A slope needs samples of at least this time."""
_PAGE_MB = resource.getpagesize() / (1 << 20)
_PROC = Path("/proc")


class Sample(NamedTuple):
    """The resource use of a node at a time."""

    at_s: float
    start: int
    """The number of earlier starts of the node."""
    rss_mb: float
    """Resident memory, with the pages that the process shares with others."""
    files: int
    """Open files, with sockets."""
    threads: int
    disk_mb: float


MEASURES = ("rss_mb", "files", "threads", "disk_mb")


def sample(at_s: float, start: int, process: int, folder: Path) -> Sample | None:
    """Measure a process; None if it has ended."""
    about = _PROC / str(process)
    try:
        rss_mb = int((about / "statm").read_text().split()[1]) * _PAGE_MB
        files = sum(1 for _ in (about / "fd").iterdir())
        threads = sum(1 for _ in (about / "task").iterdir())
        disk_mb = used_bytes(folder) / (1 << 20)
    except OSError:
        return None
    return Sample(at_s, start, round(rss_mb, 2), files, threads, round(disk_mb, 3))


@dataclass(kw_only=True)
class Growth:
    """The growth of a node's resource use, once its process is warm."""

    per_hour: dict[str, float | None]
    """The growth by measure; None if no process of the node ran for long enough."""
    over_s: float = 0.0
    """The time of the samples that the slopes are computed from."""


@dataclass
class Samples:
    """The samples of all nodes."""

    by_node: dict[int, list[Sample]] = field(default_factory=dict)

    def add(self, node: int, sample: Sample | None) -> None:
        """Add a sample, unless the process had ended."""
        if sample is not None:
            self.by_node.setdefault(node, []).append(sample)

    def growth(self, node: int, warm_up_s: float) -> Growth:
        """The growth of a node, from the longest time in which one process of it was warm."""
        stretches: dict[int, list[Sample]] = {}
        for one in self.by_node.get(node, ()):
            stretches.setdefault(one.start, []).append(one)
        warm = [
            [one for one in stretch if one.at_s >= stretch[0].at_s + warm_up_s]
            for stretch in stretches.values()
        ]
        longest = max(warm, key=_length_s, default=[])
        if _length_s(longest) < STRETCH_S_MIN:
            return Growth(per_hour=dict.fromkeys(MEASURES))
        per_hour: dict[str, float | None] = {
            name: round(slope([(one.at_s, getattr(one, name)) for one in longest]) * HOUR_S, 3)
            for name in MEASURES
        }
        return Growth(per_hour=per_hour, over_s=round(_length_s(longest), 1))


def _length_s(stretch: Sequence[Sample]) -> float:
    return stretch[-1].at_s - stretch[0].at_s if stretch else 0.0


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between all pairs of points (Theil and Sen); outliers do not count.

    >>> slope([(0, 0), (1, 2), (2, 4), (3, 100), (4, 8)])
    2.0
    """
    every = -(-len(points) // PAIRED_MAX)
    return median(_slopes(points[::every]))


def _slopes(points: Iterable[tuple[float, float]]) -> list[float]:
    return [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x2 > x1]
