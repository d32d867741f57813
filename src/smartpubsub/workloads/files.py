"""Workload files: read in either of their formats, written in ours."""

from __future__ import annotations

import gzip
import json
from itertools import chain
from pathlib import Path

from smartpubsub.workloads.actions import Workload
from smartpubsub.workloads.entries import entry_of
from smartpubsub.workloads.errors import WorkloadError
from smartpubsub.workloads.lines import read_lines
from smartpubsub.workloads.reddit import is_reddit, reddit_workload
from smartpubsub.workloads.timetable import workload_of
from smartpubsub.workloads.writing import records_of


def read_workload(path: Path) -> Workload:
    """Read a file of actions or of Reddit comments, plain or compressed with gzip.

    Nodes are numbered in the order in which the file names them.
    """
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        raise WorkloadError(
            'the file is empty; write lines such as {"node": "n1", "subscribe": "surf"}', path=path
        )
    lines = chain([first], lines)
    if is_reddit(first):
        workload = reddit_workload(lines)
    else:
        workload = workload_of([entry_of(line) for line in lines])
    if not workload.phases:
        raise WorkloadError(
            "nothing happens in this file; let a node subscribe or publish", path=path
        )
    return workload


def write_workload(workload: Workload, path: Path) -> None:
    """Write a workload so that reading it gives the same names and phases.

    A file whose name ends in `.gz` is compressed. The pace is not written, because the times are.
    """
    lines = [json.dumps(record, ensure_ascii=False) for record in records_of(workload)]
    content = "\n".join([*lines, ""]).encode()
    try:
        # Without a time stamp, so that equal workloads give equal files.
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    except OSError as error:
        raise WorkloadError(f"{error.strerror}; choose another place", path=path) from None
