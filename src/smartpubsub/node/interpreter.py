"""Python's settings for a process that is a node.

With its usual thresholds the garbage collector takes a tenth of a busy node's time: most of what a
node makes lives for long, as history, and little of it is garbage that refers to itself.

A thread that decodes a long message keeps the interpreter for as long as it is allowed to, each
time that the event loop has waited for something. With Python's 5 ms an event of another peer,
which passes through a dozen rounds of the loop, would take ten times as long meanwhile.

The C library keeps freed memory between blocks that are in use. Messages of all sizes come and go
between what lives for long, so this part of a node grows for hours, without any use.
"""

from __future__ import annotations

import ctypes
import gc
import sys

import trio

THRESHOLDS = (20_000, 5, 80)
"""How many new objects, and then collections of the younger ones, begin a collection.

The middle one looks at each object once, however often it runs; seldom, it takes long at a time.
"""
SWITCH_S = 0.0005
TRIM_S = 60.0
"""How often free memory is returned, which takes a few milliseconds."""


def tune_interpreter() -> None:
    """Collect garbage seldom, pass over what is there now, and have threads take short turns."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    sys.setswitchinterval(SWITCH_S)


async def trim_memory() -> None:
    """Return free memory to the system now and then, if the C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while trim is not None:
        await trio.sleep(TRIM_S)
        trim(0)
