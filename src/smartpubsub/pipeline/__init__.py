"""The data pipeline on Spark: stages from tables to tables, and nodes as sources and sinks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smartpubsub.pipeline.datasource.streams import stream
    from smartpubsub.pipeline.sessions import session

__all__ = ["session", "stream"]

_MODULES = {
    "session": "smartpubsub.pipeline.sessions",
    "stream": "smartpubsub.pipeline.datasource.streams",
}


def __getattr__(name: str) -> Any:
    """Import on first use: most commands need no stream, and some no Spark."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
