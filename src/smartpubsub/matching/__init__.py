"""Matching: which of many filters an event matches, and summaries of sets of filters."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from smartpubsub.matching.filter_set import Changes, FilterSet
from smartpubsub.matching.index import Index
from smartpubsub.matching.native_engine import EngineError
from smartpubsub.matching.storage import IndexFileError

if TYPE_CHECKING:
    from smartpubsub.matching.tables import EVENTS_SCHEMA, TableError

__all__ = [
    "EVENTS_SCHEMA",
    "Changes",
    "EngineError",
    "FilterSet",
    "Index",
    "IndexFileError",
    "TableError",
]


def __getattr__(name: str) -> Any:
    # A node matches no tables, and Arrow takes 40 MB.
    if name in ("EVENTS_SCHEMA", "TableError"):
        return getattr(import_module("smartpubsub.matching.tables"), name)
    raise AttributeError(f"module 'smartpubsub.matching' has no attribute {name!r}")
