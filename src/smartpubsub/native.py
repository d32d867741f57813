"""The native module, a separate distribution that is not always there.

Each function in it has a pure-Python equal, which tests compare it with.
"""

from __future__ import annotations

from typing import Any

INTERFACE = 3
"""The interface version that this package expects of the native module."""


def _load() -> Any:
    try:
        import smartpubsub_native
    except ImportError:
        return None
    is_known = getattr(smartpubsub_native, "interface", 0) == INTERFACE
    return smartpubsub_native if is_known else None


native = _load()
"""The module, or None where it is not installed in this version."""
