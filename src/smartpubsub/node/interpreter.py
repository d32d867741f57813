"""Python's settings for a process that is a node.

With its usual thresholds the garbage collector takes a tenth of a busy node's time: most objects of
a node live for long, as history, and few are garbage in reference cycles.

A thread that decodes a long message holds the interpreter for the whole switch interval each time
that the event loop has waited for something. With Python's 5 ms an event of another peer, which
passes through a dozen rounds of the loop, would take ten times as long meanwhile.

Reference cycles, such as those of a closed connection, wait for a collection of all generations.
That begins after millions of new objects, which takes a node with little to do hours. The C library
keeps freed memory between blocks that are in use. Messages of all sizes come and go between objects
that live for long. Both would let a node grow for hours, so it also cleans up on a timer.

Glibc gives each thread a heap of its own, and takes large blocks from the heap once it has freed
one that it had mapped. Objects that live for long then lie behind a large message, whose place the
heap cannot return. A node therefore has one heap, and maps large blocks one by one.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import time

import trio

THRESHOLDS = (20_000, 5, 80)
"""How many new objects, and then collections of the younger ones, begin a collection.

The middle generation looks at each object once, however often it runs; run seldom, it pauses long.
"""
SWITCH_S = 0.0005
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""The names of options of glibc's `mallopt`."""
MAPPED_BYTES_MIN = 128 << 10
"""Blocks of at least this size are mapped; glibc's first threshold."""
CLEANUP_S = 60.0
"""How often a node frees cycles and returns memory, at most."""
CLEANUP_SHARE = 0.0005
"""The share of time that a processor may clean; a node with much history cleans less often."""


def tune_interpreter() -> None:
    """Collect garbage seldom, never the objects that exist now; have threads take short turns.

    Also keep the heap of the C library compact, if it is glibc.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    sys.setswitchinterval(SWITCH_S)
    libc = ctypes.CDLL(None)
    if hasattr(libc, "gnu_get_libc_version"):
        libc.mallopt(_ARENA_MAX, 1)
        libc.mallopt(_MMAP_THRESHOLD, MAPPED_BYTES_MIN)


async def clean_memory() -> None:
    """Free cycles of objects, and return free memory to the system if the C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    wait_s = CLEANUP_S
    while True:
        await trio.sleep(wait_s)
        began = time.thread_time()  # On a busy machine, the same work takes longer.
        gc.collect()
        if trim is not None:
            trim(0)
        wait_s = max(CLEANUP_S, (time.thread_time() - began) / CLEANUP_SHARE)
