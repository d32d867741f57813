"""Matching: which of many filters an event matches, and summaries of sets of filters."""

from smartpubsub.matching.filter_set import Changes, FilterSet
from smartpubsub.matching.index import Index
from smartpubsub.matching.native_engine import EngineError
from smartpubsub.matching.storage import IndexFileError
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
