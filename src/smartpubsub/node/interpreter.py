"""Python's settings for a process that is a node.

With its usual thresholds the garbage collector takes a tenth of a busy node's time: most of what a
node makes lives for long, as history, and little of it is garbage that refers to itself.

A thread that decodes a long message keeps the interpreter for as long as it is allowed to, each
time that the event loop has waited for something. With Python's 5 ms an event of another peer,
which passes through a dozen rounds of the loop, would take ten times as long meanwhile.

Objects that refer to each other, such as those of a closed connection, wait for a collection of all
generations. It begins after millions of new objects, which a node with little to do makes in hours.
The C library keeps freed memory between blocks that are in use. Messages of all sizes come and go
between what lives for long. Both would let a node grow for hours, so it cleans up on a timer too.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import time

import trio

THRESHOLDS = (20_000, 5, 80)
"""How many new objects, and then collections of the younger ones, begin a collection.

The middle one looks at each object once, however often it runs; seldom, it takes long at a time.
"""
SWITCH_S = 0.0005
CLEANUP_S = 60.0
"""How often a node frees cycles and returns memory, at most."""
CLEANUP_SHARE = 0.0005
"""The share of the time that this may take; a node with much history does it less often."""


def tune_interpreter() -> None:
    """Collect garbage seldom, pass over what is there now, and have threads take short turns."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    sys.setswitchinterval(SWITCH_S)


async def clean_memory() -> None:
    """Free cycles of objects, and return free memory to the system if the C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    wait_s = CLEANUP_S
    while True:
        await trio.sleep(wait_s)
        began = time.perf_counter()
        gc.collect()
        if trim is not None:
            trim(0)
        wait_s = max(CLEANUP_S, (time.perf_counter() - began) / CLEANUP_SHARE)
