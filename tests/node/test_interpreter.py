"""A node's process frees and returns memory that it does not use."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import weakref
from pathlib import Path
from random import Random

import pytest
import trio
from trio.testing import MockClock

from smartpubsub.node.interpreter import CLEANUP_S, clean_memory

STATM = Path("/proc/self/statm")
PAGE_BYTES = 4_096


class _Half:
    """Two of these refer to each other, so that counting references does not free them."""

    other: _Half


def resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * PAGE_BYTES


@pytest.mark.skipif(
    not STATM.exists() or not hasattr(ctypes.CDLL(None), "malloc_trim"),
    reason="the C library or the system is another one",
)
def test_memory_between_blocks_in_use_is_returned() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clean_memory)
            await trio.sleep(CLEANUP_S / 2)
            rng = Random(1)
            made = [bytes(rng.randrange(5_000, 20_000)) for _ in range(4_000)]
            in_use, free_bytes = made[::4], sum(map(len, made)) * 3 // 4
            before = resident_bytes()
            del made
            await trio.sleep(CLEANUP_S)
            assert before - resident_bytes() > free_bytes / 3
            assert in_use
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


LARGE_BLOCKS = """
import re
from pathlib import Path
from smartpubsub.node.interpreter import tune_interpreter

tune_interpreter()
heap = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) .*\\[heap\\]$", re.MULTILINE)
def heap_bytes():
    found = heap.findall(Path("/proc/self/maps").read_text())
    return sum(int(last, 16) - int(first, 16) for first, last in found)

bytes(20 << 20)  # Glibc would raise its threshold to this size when it frees the block.
before = heap_bytes()
kept = []
for number in range(200):
    large = bytes(1 << 20)
    kept.append(bytes(2_000))
print(heap_bytes() - before)
"""


@pytest.mark.skipif(
    not STATM.exists() or not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"),
    reason="the C library or the system is another one",
)
def test_large_blocks_do_not_extend_the_heap() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LARGE_BLOCKS], capture_output=True, text=True, check=True
    )

    assert int(ran.stdout) < 1 << 20


def test_old_cycles_are_freed_however_little_a_node_has_to_do() -> None:
    first, second = _Half(), _Half()
    first.other, second.other = second, first
    gc.collect()
    gc.collect()  # The cycle is now in the oldest generation, which is hardly ever collected.
    freed = weakref.ref(first)
    del first, second
    gc.collect(1)
    assert freed() is not None

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clean_memory)
            await trio.sleep(CLEANUP_S + 1)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert freed() is None
