"""Processes that a process has started, and their memory; on Linux."""

from __future__ import annotations

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
