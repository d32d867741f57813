"""Randomness by name: every node and purpose draws from a stream of its own.

So one more draw in one place changes nothing in another, and a seed reproduces everything.
"""

from __future__ import annotations

import hashlib
from random import Random


def stream(seed: int, *purpose: object) -> Random:
    """The random stream for a purpose.

    >>> stream(1, "jitter").random() == stream(1, "jitter").random()
    True
    """
    text = "/".join(map(str, (seed, *purpose)))
    return Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))
