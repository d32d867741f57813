"""Lower bounds of any implementation of a node's promises: signatures, and flushes of a disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from nacl.signing import SigningKey

from smartpubsub.node.storage.store import SqliteStorage

ROUNDS = 5
PER_ROUND = 200
FLUSHES = 100
CONTENT = bytes(200)
"""Content as long as the signed content of a small event."""


def signature_us() -> tuple[float, float]:
    """The processor time of an Ed25519 signature, and of its verification."""
    key = SigningKey.generate()
    signature = key.sign(CONTENT).signature
    verify = key.verify_key
    return (
        _cpu_us(lambda: key.sign(CONTENT)),
        _cpu_us(lambda: verify.verify(CONTENT, signature)),
    )


def _cpu_us(work: Callable[[], object]) -> float:
    costs = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(PER_ROUND):
            work()
        costs.append((time.process_time() - start) / PER_ROUND * 1e6)
    return median(costs)


def flush_s(folder: Path) -> float:
    """The median time of a transaction of one row that is flushed to the disk."""
    took = []
    with SqliteStorage(folder) as storage:
        for number in range(FLUSHES):
            start = time.perf_counter()
            storage.apply([(b"%d" % number, CONTENT)])
            took.append(time.perf_counter() - start)
    return median(took)
