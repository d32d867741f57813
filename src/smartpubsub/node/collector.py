"""The garbage collector of a process that is a node.

With Python's thresholds it takes a tenth of a busy node's time: most of what a node makes lives for
long, as history, and little of it is garbage that refers to itself.
"""

from __future__ import annotations

import gc

THRESHOLDS = (20_000, 20, 20)


def collect_seldom() -> None:
    """Have the collector pass over what is there now, and look at new objects less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
