"""Workload files from a few lines of text, and keys for nodes."""

import json
from pathlib import Path

from smartpubsub.kademlia.keys import key_of
from smartpubsub.workloads import read_workload
from smartpubsub.workloads.actions import Workload


def read(folder: Path, *lines: object) -> Workload:
    return read_workload(written(folder, *lines))


def written(folder: Path, *lines: object) -> Path:
    """A file with these lines; what is not text yet becomes JSON."""
    path = folder / "workload.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


def keys(nodes: int) -> list[int]:
    return [key_of(b"peer %d" % number) for number in range(nodes)]
