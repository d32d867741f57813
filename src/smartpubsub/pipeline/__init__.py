"""The data pipeline on Spark: stages from tables to tables, and nodes as sources and sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smartpubsub.pipeline.datasource.streams import stream

__all__ = ["stream"]


def __getattr__(name: str) -> Any:
    """Import on first use: most commands need no stream."""
    if name == "stream":
        from smartpubsub.pipeline.datasource.streams import stream

        return stream
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
