"""Processes that a process has started, their memory and processor time; on Linux."""

from __future__ import annotations

import os
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, directly or not, parents first."""
    children: dict[int, list[int]] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and (parent := parent_of(int(each.name))) is not None:
            children.setdefault(parent, []).append(int(each.name))
    found = [pid]
    for each_pid in found:
        found += children.get(each_pid, [])
    return found[1:]


def parent_of(pid: int) -> int | None:
    """The process that has started a process; None if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1])


def memory_mb(pid: int) -> float:
    """The proportional memory (PSS) of a process; 0 if it has ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    fields = (line.split() for line in text.splitlines())
    return next((int(words[1]) / 1024 for words in fields if words[0] == "Pss:"), 0.0)


def tree_seconds(pid: int) -> float:
    """The processor time of a process and of all that it has started, also of those that ended.

    A process that ended counts as soon as its parent has waited for it.
    """
    return sum(map(_seconds, (pid, *descendants(pid))))


def _seconds(pid: int) -> float:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    # User and system time, of the process and of the children that it has waited for.
    ticks = map(int, stat.rpartition(")")[2].split()[11:15])
    return sum(ticks) / os.sysconf("SC_CLK_TCK")
