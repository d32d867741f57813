"""Random streams by name: every node and purpose has a stream of its own.

So one more draw in one place changes no other draw, and a seed reproduces a run.
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
